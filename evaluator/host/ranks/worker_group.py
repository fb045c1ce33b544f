"""The host's side of the ranks of one submission, from their start to their end."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from evaluator.arena import protocol
from evaluator.arena.protocol import Command, CommandKind, Report
from evaluator.host.clock.call_clock import CallTime, Opening, UnseenEnd
from evaluator.host.hangs.incidents import Observation, RanksLost, WorkerGroupFailure
from evaluator.host.process.deadlines import NO_DEADLINES
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.answers import Answers
from evaluator.host.ranks.channel import Channel
from evaluator.host.ranks.observer import Observer
from evaluator.host.ranks.rank_sandbox import RankSandbox
from evaluator.host.ranks.worker import Worker
from evaluator.host.resources import Resources


class WorkerGroup:
    """The sandbox ranks of one submission; used once, then ended. Not thread-safe.

    A command goes to all ranks at the same time, once they are ready, and each gives one answer. `seconds` is the
    deadline of the answers; that of the evaluation may come sooner.

    Attributes:
        deadlines: of the evaluation that has the group, which may be cancelled, too.
        started_at: when, on the monotonic clock.
        has_ranks: whether its ranks were allowed to start.
        is_ready: whether its ranks have joined their process group.
        sandbox: its folder and its processes.
    """

    def __init__(self, resources: Resources, *, spawner: Spawner, work_dir: Path) -> None:
        """Start the sandbox; in the background it does everything that needs no GPU. Raises EvaluatorError."""
        self.started_at = time.monotonic()
        self.deadlines = NO_DEADLINES
        self._resources = resources
        self.has_ranks = False
        self.is_ready = False
        self.sandbox = RankSandbox(resources, spawner=spawner, work_dir=work_dir)
        self._workers = [
            Worker(number=number, channel=Channel(channel), status_page=status_page)
            for number, (channel, status_page) in enumerate(self.sandbox.ends)
        ]
        self._observer = Observer(self._workers, self.sandbox)
        self._answers = Answers(self._workers, self.sandbox, self._observer)

    # ---- from start to end ------------------------------------------------------------------------------------

    def start_ranks(self) -> None:
        """Let the ranks start, which uses the GPUs. In the background, and only once."""
        if not self.has_ranks:
            self.sandbox.fork_ranks()
            self.has_ranks = True

    def wait_until_ready(self) -> None:
        """Return once every rank has joined the process group.

        Raises:
            RanksLost: a rank did not join, or has ended since; no submission was involved.
        """
        if not self.is_ready:
            self._join()
        # A rank may have joined and ended before the host reads that it joined.
        if not self.is_alive:
            said = self.sandbox.launcher_text
            raise RanksLost(f"a sandbox rank ended before it had a submission. {said}")

    def _join(self) -> None:
        """Let the ranks start, and wait until all have joined; raises EvaluatorError."""
        self.start_ranks()
        try:
            seconds = self.deadlines.answer(self._resources.settings.start_s)
            self._answers.collect("starting", seconds=seconds, cancelled=self.deadlines.cancelled)
        except WorkerGroupFailure as failure:
            texts = [text for seen in failure.observations for text in (seen.error, seen.log) if text]
            said = self.sandbox.launcher_text
            raise RanksLost(f"the sandbox ranks did not start: {failure} {said} {texts}") from failure
        if (pid := self._workers[0].pid) is not None:
            self.sandbox.processes.hold_namespace(pid)
        self.is_ready = True

    def close(self) -> None:
        """Kill all processes of the group, check that none is left, and free the host's resources.

        Raises:
            EvaluatorError: a process of the group is left.
        """
        try:
            self.sandbox.processes.kill(within=self.deadlines.killing)
        finally:
            self._answers.close()
            self.sandbox.close()

    # ---- commands ---------------------------------------------------------------------------------------------

    def import_submission(self) -> None:
        """Let every rank import solution.py. None begins before all have read the command.

        Raises:
            WorkerGroupFailure: not every rank has imported it.
            RanksLost: a rank ended before it read the command, so none has read the submission.
        """
        try:
            command, seconds = Command(kind=CommandKind.IMPORT), self._resources.settings.import_s
            self._ask("importing solution.py", command, seconds=seconds)
        except WorkerGroupFailure as failure:
            if any(worker.channel.left_unread for worker in self._workers):
                raise RanksLost(f"a sandbox rank ended before it could read the submission: {failure}") from failure
            raise

    def load(self, call: int, files: Sequence[Sequence[int]], *, seconds: float) -> None:
        """Hand every rank the files (and new device memory) of `call`; raises WorkerGroupFailure."""
        command = Command(kind=CommandKind.LOAD, call=call)
        self._ask(f"loading call {call}", command, files=files, seconds=seconds)

    def record(self, call: int, files: Sequence[int], *, seconds: float) -> None:
        """Have every rank record into its file what runs, from now to the end of `call`; raises WorkerGroupFailure."""
        command = Command(kind=CommandKind.RECORD, call=call)
        each = [(file,) for file in files]
        self._ask(f"starting to record call {call}", command, files=each, seconds=seconds)

    def go(
        self,
        call: int,
        *,
        opening: Opening,
        inputs: Sequence[int] = (),
        reuse: bool = False,
        count: bool = False,
        goes_on: bool = False,
        seconds: float,
    ) -> tuple[list[Report], CallTime]:
        """Run `call` on every rank.

        Args:
            call: its number.
            opening: how its gates open.
            inputs: CPU ranks get theirs now, one file per rank.
            reuse: whether CPU ranks write them into the tensors of the call before.
            count: whether library collectives in the call are counted.
            goes_on: whether ranks begin another call as soon as the outputs of this one are taken.
            seconds: the deadline of the answers.

        Returns:
            What the ranks report, and the call on the host's clock.

        Raises:
            WorkerGroupFailure: not every rank answered.
            UnseenEnd: a rank answered, but its device has not posted the end of the call.
        """
        told = {"reuse": reuse, "count": count, "is_open": opening.is_early, "goes_on": goes_on}
        commands = [Command(kind=CommandKind.GO, call=call, delay_us=delay, **told) for delay in opening.delays_us]
        files = [inputs[rank : rank + 1] for rank in range(len(self._workers))]
        reports, taken = self._timed(commands, files, opening, seconds=seconds)
        for worker in self._workers:
            worker.calls_done += 1
        return reports, taken

    def bare(self, call: int, *, opening: Opening, seconds: float) -> CallTime:
        """One bare call, while there is no submission: the overhead of a call.

        Raises:
            RanksLost: a rank did not answer, or a device did not post the end; no submission was involved.
        """
        commands = [Command(kind=CommandKind.BARE, call=call)] * len(self._workers)
        files = [()] * len(self._workers)
        try:
            return self._timed(commands, files, opening, seconds=seconds)[1]
        except (UnseenEnd, WorkerGroupFailure) as failure:
            raise RanksLost(f"sandbox ranks without a submission: {failure}") from failure

    def loop(self, call: int, *, times: int, groups: int, seconds: float) -> int:
        """Run the submission `times` times back to back on `groups` of the last inputs; raises WorkerGroupFailure.

        Returns nanoseconds from the command to the last answer, on the host's clock.
        """
        command = Command(kind=CommandKind.LOOP, call=call, times=times, groups=groups)
        begun = time.monotonic_ns()
        self._ask(f"{times} calls back to back", command, seconds=seconds)
        return max(worker.answered_at_ns for worker in self._workers) - begun

    def store(self, call: int, files: Sequence[int], *, seconds: float) -> None:
        """Have every rank store again what it returned in `call`, as it is now; raises WorkerGroupFailure."""
        command, doing = Command(kind=CommandKind.STORE, call=call), f"call {call} (storing its outputs again)"
        self._ask(doing, command, files=[(file,) for file in files], seconds=seconds)

    def _ask(self, doing: str, command: Command, *, files: Sequence[Sequence[int]] = (), seconds: float) -> None:
        ranks = len(self._workers)
        seconds = self.deadlines.step(seconds)
        self._answers.ask([command] * ranks, files or [()] * ranks)
        self._collect(doing, seconds=seconds)

    def _timed(
        self, commands: Sequence[Command], files: Sequence[Sequence[int]], opening: Opening, *, seconds: float
    ) -> tuple[list[Report], CallTime]:
        """Time a call on the host's clock: by the gatekeeper on GPUs, by commands and answers on CPU ranks."""
        call, clock, seconds = commands[0].call, self._resources.clock, self.deadlines.step(seconds)
        timing: AbstractContextManager[Callable[[], CallTime] | None] = nullcontext()
        if clock is not None:
            timing = clock.timing(self.sandbox.clock_page, opening, number=call, limit_s=seconds)
        with timing as finish:
            begun = time.monotonic_ns()
            self._answers.ask(commands, files)
            reports = self._collect(f"call {call}", seconds=seconds)
            if finish is not None:
                return reports, finish()
        return reports, CallTime(
            done_ns=tuple(worker.answered_at_ns - begun for worker in self._workers),
            marks=tuple(protocol.fingerprint_text(report.fingerprint) for report in reports),
        )

    def _collect(self, doing: str, *, seconds: float) -> list[Report]:
        busy_poll_s, cancelled = self._resources.shares.busy_poll_s, self.deadlines.cancelled
        return self._answers.collect(doing, seconds=seconds, busy_poll_s=busy_poll_s, cancelled=cancelled)

    # ---- its state --------------------------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """Whether the sandbox still runs, with every rank."""
        self._answers.hear_exits()
        return not self.sandbox.processes.have_ended and not any(
            worker.status is not None or worker.channel.has_hung_up for worker in self._workers
        )

    def observe_finished(self) -> tuple[Observation, ...]:
        """Every rank's state after a series in which all calls were answered."""
        return self._observer.observe(answered=frozenset(range(len(self._workers))))
