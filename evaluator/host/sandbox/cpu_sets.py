"""Which processors the ranks of a slot use, on a node that has enough.

Measured on 2 H200 with 32 processors (21 November 2026, torch 2.11.0+cu130): a call of `gemm_allreduce` at `base` took
72 us at the median with ranks that move between processors. It took 53 us with ranks on their own processors.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evaluator.hardware.profiles import Profile
from evaluator.host.machine import gpus

BUSY_POLL_S = 0.5
"""How long ranks on their own processors busy-poll for the next message: longer than the pauses between calls. A
sleeping rank pays wake-up latency and finds cold caches."""

_LEAST = 8

_DESCRIBED = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Processors of every rank's oracle and sandbox, of the host, and those left; none twice.

    Empty: every process uses all processors.
    """

    oracle: tuple[tuple[int, ...], ...] = ()
    sandbox: tuple[tuple[int, ...], ...] = ()
    host: tuple[int, ...] = ()
    spare: tuple[int, ...] = ()

    def threads(self, part: Sequence[Sequence[int]], *, world_size: int) -> int:
        """How many threads a rank of this part computes with: one per processor of its own, or its share of all."""
        return len(part[0]) if part else max(1, len(os.sched_getaffinity(0)) // world_size)

    @property
    def gatekeeper(self) -> tuple[int, ...]:
        """The host's processor that only observes the ends of calls."""
        return self.host[-1:]

    @property
    def builders(self) -> tuple[int, ...]:
        """Where submissions may be compiled while ranks are timed: neither on a rank's core nor the gatekeeper's.

        The host keeps a core for itself.
        """
        return (*self.host[2:-2], *self.spare)

    @property
    def busy_poll_s(self) -> float:
        """How long to busy-poll for a message before sleeping, in seconds."""
        return BUSY_POLL_S if self.sandbox else 0.0


def shares_for(profile: Profile) -> Shares:
    """The shares on this machine; on CPU profiles, and where ranks share a GPU, all ranks use all processors.

    Of two nodes on one machine (PKB_NODE_GPUS) each has the share of its GPUs, unless the operator has limited this
    node's processors.

    Raises:
        EvaluatorError: PKB_NODE_GPUS cannot be read.
    """
    if not profile.measures_time or not profile.is_on_gpus:
        return Shares()
    given = os.sched_getaffinity(0)
    ordered = by_core(given)
    own, everywhere = gpus.present(), gpus.everywhere()
    if own != everywhere and len(given) == os.cpu_count():
        ordered = of_gpus(ordered, own=own, everywhere=everywhere)
    return shares(ordered, world_size=profile.world_size)


def by_core(processors: Iterable[int], *, described: Path = _DESCRIBED) -> list[int]:
    """`processors` ordered by core: threads of one core, which slow each other down, are neighbours."""

    def core_then_number(number: int) -> tuple[int, int]:
        try:
            siblings = (described / f"cpu{number}" / "topology" / "thread_siblings_list").read_text()
        except OSError:
            siblings = ""
        first = re.match(r"\d+", siblings)
        return int(first[0]) if first else number, number

    return sorted(processors, key=core_then_number)


def of_gpus(processors: Sequence[int], *, own: Sequence[int], everywhere: Sequence[int]) -> list[int]:
    """The share of `processors` for the GPUs `own`: every GPU of the machine gets the same even number."""
    each = len(processors) // len(everywhere) // 2 * 2
    return [
        number
        for index, gpu in enumerate(everywhere)
        if gpu in own
        for number in processors[each * index : each * (index + 1)]
    ]


def shares(processors: Sequence[int], *, world_size: int) -> Shares:
    """Equal shares of `processors` for the ranks and one for the host; up to half of a rank's is its oracle's.

    Neighbours, often two threads of one core, stay together: every part has an even number. With fewer than 8 for each,
    nothing is divided.
    """
    each = len(processors) // (world_size + 1) // 2 * 2
    if each < _LEAST:
        return Shares()
    cut = each // 2 // 2 * 2
    parts = [processors[each * (rank + 1) : each * (rank + 2)] for rank in range(world_size)]
    return Shares(
        oracle=tuple(tuple(part[:cut]) for part in parts),
        sandbox=tuple(tuple(part[cut:]) for part in parts),
        host=tuple(processors[:each]),
        spare=tuple(processors[each * (world_size + 1) :]),
    )


@contextmanager
def host_on(own: Shares) -> Iterator[None]:
    """Keep the calling thread on the host's processors while entered, so that it takes none from a rank."""
    if not own.host:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, own.host[:-1] or own.host)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
