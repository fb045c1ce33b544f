"""Which processors the ranks of a slot use on a node that has enough of them.

Measured on 2 H200 with 32 processors (21 November 2026, torch 2.11.0+cu130): a call of `gemm_allreduce` at `base` took
72 us at the median with ranks that wander over the processors, and 53 us with ranks that keep to their own.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from evaluator.hardware.profiles import Profile

ATTENTIVE_S = 0.5
"""So long ranks with processors of their own look for the next message without going to sleep: longer than the pauses
between calls, for who sleeps wakes up slowly and finds its caches cold."""

_LEAST = 8


@dataclass(frozen=True, kw_only=True)
class Shares:
    """For every rank its oracle's and its sandbox's processors, and the host's; none twice. Empty: all use all."""

    oracle: tuple[tuple[int, ...], ...] = ()
    sandbox: tuple[tuple[int, ...], ...] = ()
    host: tuple[int, ...] = ()

    def threads(self, part: Sequence[Sequence[int]], *, world_size: int) -> int:
        """How many threads a rank of this part computes with: as many as it has processors, or its part of all."""
        return len(part[0]) if part else max(1, len(os.sched_getaffinity(0)) // world_size)

    @property
    def attentive_s(self) -> float:
        """How long to look for a message before going to sleep, in seconds."""
        return ATTENTIVE_S if self.sandbox else 0.0


def shares_for(profile: Profile) -> Shares:
    """The shares on this machine; on CPU profiles all ranks use all processors."""
    if profile.device != "cuda":
        return Shares()
    return shares(sorted(os.sched_getaffinity(0)), world_size=profile.world_size)


def shares(processors: Sequence[int], *, world_size: int) -> Shares:
    """Equal shares of `processors` for the ranks and one for the host; up to half of a rank's is its oracle's.

    Neighbours are often two threads of one core, so every part has an even number. Below 8 for each nothing is shared.
    """
    ordered = sorted(processors)
    each = len(ordered) // (world_size + 1) // 2 * 2
    if each < _LEAST:
        return Shares()
    cut = each // 2 // 2 * 2
    parts = [ordered[each * (rank + 1) : each * (rank + 2)] for rank in range(world_size)]
    return Shares(
        oracle=tuple(tuple(part[:cut]) for part in parts),
        sandbox=tuple(tuple(part[cut:]) for part in parts),
        host=tuple(ordered[:each]),
    )


@contextmanager
def host_on(own: Shares) -> Iterator[None]:
    """Keep the calling thread on the host's processors meanwhile, so that it takes none from a rank."""
    if not own.host:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, own.host)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
