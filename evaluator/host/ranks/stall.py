"""Notices a worker group that waits for itself: no rank computes, and every late rank is in a collective.

A deadline that is fair to slow programs is long. A deadlock is found much sooner, by four conditions at two looks in a
row:

- no process of the group uses the processor;
- there is no process beside launcher and ranks;
- no thread of a late rank but the shim's can act;
- the stack of every late rank ends inside torch.distributed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from evaluator.host.hangs import stacks
from evaluator.host.process import procfs
from evaluator.host.ranks.observer import Observer
from evaluator.host.ranks.rank_sandbox import RankSandbox
from evaluator.host.ranks.worker import Worker

LOOK_S = 1.0
"""How long the use of the processor is measured."""

_QUIET_TICKS = 3
"""Clock ticks that all processes of a hung worker group together may use between two looks."""

_LOOKS = 2


@dataclass
class StallWatch:
    """Looks at a worker group once a second after `patience_s`; a new one is made for every wait.

    Attributes:
        sandbox: of the worker group.
        observer: asks ranks for their stacks.
        start: since when they are waited for.
    """

    sandbox: RankSandbox
    observer: Observer
    start: float
    _seen: dict[int, int] = field(default_factory=dict)
    _looked_at: float = 0.0
    _locations: list[tuple[str, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, sandbox: RankSandbox, observer: Observer, *, start: float) -> Self | None:
        """Only of CPU ranks: one that waits for a GPU keeps its processor busy, so its hang meets the deadline."""
        return cls(sandbox, observer, start) if sandbox.resources.profile.device == "cpu" else None

    def stands_still(self, now: float, *, answered: frozenset[int]) -> bool:
        """Whether the late ranks wait for each other, or for ranks that have `answered`."""
        patience_s, silent = self.sandbox.resources.settings.stall_s, self.observer.silent(answered)
        if now < self.start + patience_s or now < self._looked_at + LOOK_S or not silent:
            return False
        self._looked_at = now
        before, self._seen = self._seen, {pid: procfs.cpu_ticks(pid) for pid in self.sandbox.processes.members()}
        if not before or not self._is_quiet(before) or self._have_others(silent):
            self._locations.clear()
            return False
        self.observer.dump_stacks(silent)
        locations = tuple(self._waits(rank) for rank in silent)
        if not all(locations) or (self._locations and self._locations[-1] != locations):
            self._locations.clear()
            return False
        self._locations.append(locations)
        # The dump itself took the ranks some ticks.
        self._seen = {pid: procfs.cpu_ticks(pid) for pid in self._seen}
        return len(self._locations) >= _LOOKS

    def _is_quiet(self, before: dict[int, int]) -> bool:
        return before.keys() == self._seen.keys() and sum(self._seen.values()) - sum(before.values()) <= _QUIET_TICKS

    def _have_others(self, silent: Sequence[Worker]) -> bool:
        """Whether there is a process that the submission may have started: a child of a rank, or an orphan."""
        above: set[int] = set()
        pid = procfs.parent_of(silent[0].pid or 0)
        while pid is not None and pid in self._seen:
            above.add(pid)
            pid = procfs.parent_of(pid)
        return bool(set(self._seen) - above - {worker.pid for worker in self.observer.workers})

    def _waits(self, rank: Worker) -> str:
        """The collective in which a rank's main thread waits; empty where another thread may still act."""
        dump = rank.stack
        frames = stacks.main_thread(dump)
        waiting = stacks.waits_in(frames, source=self.sandbox.source)
        own = stacks.own_frame(frames, source=self.sandbox.source)
        if waiting is None or own is None or stacks.has_threads_that_may_act(dump):
            return ""
        return f"{waiting} at {stacks.words(own)}"
