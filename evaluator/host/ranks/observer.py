"""Observes ranks from outside: their stacks, their collectives, their use of processor and GPU; whether all wait."""

import dataclasses
import logging
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from evaluator.arena import protocol
from evaluator.host.hangs import flight_recorder, stacks
from evaluator.host.hangs.incidents import Observation, Standing
from evaluator.host.machine import nvml
from evaluator.host.process import procfs
from evaluator.host.ranks.rank_sandbox import RankSandbox
from evaluator.host.ranks.worker import WATCH_S, Worker

logger = logging.getLogger(__name__)

_STACK_S = 2.0
_PRINTED_S = 0.1
"""Native stacks are complete when nothing more has come for so long."""


class Observer:
    """Observes the workers of one sandbox.

    Attributes:
        workers: all of them, in order.
    """

    def __init__(self, workers: Sequence[Worker], sandbox: RankSandbox) -> None:
        self.workers = workers
        self._sandbox = sandbox
        self._keepers = sandbox.logs.keepers

    def silent(self, answered: frozenset[int]) -> list[Worker]:
        """The workers that live and have not `answered`."""
        return [worker for worker in self.workers if worker.number not in answered and self._is_alive(worker)]

    def observe(self, *, answered: frozenset[int] = frozenset()) -> tuple[Observation, ...]:
        """Every rank's state now, with stacks of the ranks that have not `answered`."""
        silent = self.silent(answered)
        before = {worker.number: worker.ticks for worker in silent}
        asked = self._ask_for_collectives() if silent else []
        self.dump_stacks([worker for worker in silent if worker.failure is None], asked=asked)
        return tuple(
            self._observe_rank(worker, is_answered=worker.number in answered, ticks=before.get(worker.number))
            for worker in self.workers
        )

    def observe_hang(self, *, answered: frozenset[int]) -> tuple[Observation, ...]:
        """As `observe`, with GPUs and native stacks. This may end ranks, so only for an evaluation that is over."""
        return self._with_native_stacks(self._with_gpus(self.observe(answered=answered)), answered=answered)

    def dump_stacks(self, workers: Sequence[Worker], *, asked: Sequence[Worker] = ()) -> None:
        """Signal the ranks and wait until their stacks have arrived, or for a moment at most.

        Those that were `asked` for their collectives are waited for as well.
        """
        if not workers:
            return
        start = time.monotonic()
        for worker in workers:
            worker.forget_stack()
            _signal(worker, signal.SIGUSR1)
        # The wait has a minimum too, over which the ranks' use of the processor is measured.
        while (now := time.monotonic()) < start + WATCH_S or (
            now < start + _STACK_S
            and not (
                # A busy machine shows half a dump: its other threads, and not yet the one that runs the submission.
                all(stacks.main_thread(worker.stack) for worker in workers)
                and all(worker.has_noted_collectives for worker in asked)
            )
        ):
            time.sleep(0.02)

    def _is_alive(self, worker: Worker) -> bool:
        return worker.pid is not None and worker.status is None and not self._sandbox.processes.have_ended

    def _ask_for_collectives(self) -> list[Worker]:
        """Ask every rank to note its collectives; returns those asked. They answer while the host waits for stacks."""
        asked = self.silent(frozenset())
        for worker in asked:
            worker.forget_collectives()
            _signal(worker, protocol.FLIGHT_SIGNAL)
        return asked

    def _observe_rank(self, worker: Worker, *, is_answered: bool, ticks: int | None) -> Observation:
        standing, location = worker.location(is_answered=is_answered, source=self._sandbox.source, ticks_before=ticks)
        error = worker.text if worker.failure is not None else None
        frames = stacks.main_thread(worker.stack) if error is None else stacks.traced(error)
        collectives = worker.collectives
        said = flight_recorder.words(collectives, world_size=len(self.workers))
        if said and (standing is not Standing.FAILED or flight_recorder.pending(collectives)):
            location = f"{location} ({said})"
        return Observation(
            rank=worker.number,
            standing=standing,
            location=location,
            calls_done=worker.calls_done,
            exit=worker.exit_words,
            error=error,
            stack=worker.stack or None,
            log=self._keepers[worker.number].text(),
            log_lacks=self._keepers[worker.number].dropped,
            collectives=collectives,
            place=stacks.own_frame(frames, source=self._sandbox.source),
        )

    def _with_gpus(self, observations: tuple[Observation, ...]) -> tuple[Observation, ...]:
        """Add how busy each rank's GPU is: one that spin-waits on a flag shows 100 %, one that waits for data 0."""
        gpus = self._sandbox.resources.gpus
        busy = {state.index: state.busy_percent for state in nvml.read(gpus)}
        by_rank = {rank: busy[gpu] for rank, gpu in enumerate(gpus) if gpu in busy}
        return tuple(
            dataclasses.replace(seen, location=f"{seen.location} (its GPU {by_rank[seen.rank]} % busy)")
            if seen.rank in by_rank
            else seen
            for seen in observations
        )

    def _with_native_stacks(
        self, observations: tuple[Observation, ...], *, answered: frozenset[int]
    ) -> tuple[Observation, ...]:
        """Have the silent ranks print their native stacks. This may end them, but the evaluation is over."""
        silent = self.silent(answered)
        for worker in silent:
            self._keepers[worker.number].set_aside()
            _signal(worker, signal.SIGINT)
        self._wait_for_prints(silent)
        native = {worker.number: stacks.native(self._keepers[worker.number].aside) for worker in silent}
        return tuple(_with_native(seen, native[seen.rank]) if native.get(seen.rank) else seen for seen in observations)

    def _wait_for_prints(self, workers: Sequence[Worker]) -> None:
        """Return when all have printed and nothing more comes, or after a short limit."""
        deadline = time.monotonic() + _STACK_S
        before: list[int] = []
        while time.monotonic() < deadline:
            time.sleep(_PRINTED_S)
            lengths = [len(self._keepers[worker.number].aside) for worker in workers]
            if all(lengths) and lengths == before:
                break
            before = lengths


def _with_native(seen: Observation, stacks_of_rank: str) -> Observation:
    """The observation with native stacks: they tell what a rank waits for that seems to sleep or run."""
    seen = dataclasses.replace(seen, stack=f"{seen.stack or ''}\n\nNative stacks:\n{stacks_of_rank}".lstrip())
    where = f",{seen.location.removeprefix('sleeps').removeprefix('runs')}"
    if seen.standing is Standing.SLEEPING and stacks.waits_for_handle(stacks_of_rank):
        waits = "waits for an operation that it began"
        return dataclasses.replace(seen, standing=Standing.IN_COLLECTIVE, location=f"{waits}{where}")
    if seen.standing in (Standing.SLEEPING, Standing.WORKING) and stacks.waits_for_device(stacks_of_rank):
        return dataclasses.replace(seen, standing=Standing.ON_DEVICE, location=f"waits for its GPU{where}")
    return seen


def _signal(worker: Worker, number: int) -> None:
    """Send a signal to a rank; a rank that has gone is ignored, and a forbidden signal is logged as our error."""
    if worker.pid is None:
        return
    try:
        os.kill(worker.pid, number)
    except ProcessLookupError:
        logger.debug("rank %d (process %d) has gone", worker.number, worker.pid)
    except OSError as error:
        logger.warning("rank %d (process %d) cannot be signalled: %s", worker.number, worker.pid, error)


LOOK_S = 1.0
"""How long the use of the processor is measured."""

_QUIET_TICKS = 3
"""Clock ticks that all processes of a hung worker group together may use between two looks."""

_LOOKS = 2


@dataclass
class StallWatch:
    """Notices a worker group that waits for itself; a new one is made for every wait.

    A deadline that is fair to slow programs is long. A deadlock is found much sooner, by four conditions at two looks
    in a row, a second apart. No process of the group uses the processor, and there is none beside launcher and ranks.
    No thread of a late rank but the shim's can act, and the stack of every late rank ends inside torch.distributed.

    Attributes:
        sandbox: of the worker group.
        observer: asks ranks for their stacks.
        start: since when they are waited for.
    """

    sandbox: RankSandbox
    observer: Observer
    start: float
    _seen: dict[int, int] = field(default_factory=dict)
    _checked_at: float = 0.0
    _locations: list[tuple[str, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, sandbox: RankSandbox, observer: Observer, *, start: float) -> Self | None:
        """Only of CPU ranks: one that waits for a GPU keeps its processor busy, so its hang meets the deadline."""
        return cls(sandbox, observer, start) if sandbox.resources.profile.device == "cpu" else None

    def is_deadlocked(self, now: float, *, answered: frozenset[int]) -> bool:
        """Whether the late ranks wait for each other, or for ranks that have `answered`."""
        patience_s, silent = self.sandbox.resources.settings.stall_s, self.observer.silent(answered)
        if now < self.start + patience_s or now < self._checked_at + LOOK_S or not silent:
            return False
        self._checked_at = now
        before, self._seen = self._seen, {pid: procfs.cpu_ticks(pid) for pid in self.sandbox.processes.members()}
        used = sum(self._seen.values()) - sum(before.values())
        if before.keys() != self._seen.keys() or used > _QUIET_TICKS or self._have_others(silent):
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
