"""The host's side of the ranks of one submission: start, reveal, command, observe, end."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from evaluator.arena import protocol
from evaluator.arena.protocol import Command, CommandKind, Report
from evaluator.contract import SourceBundle
from evaluator.host.building.builder import Built
from evaluator.host.clock.call_clock import CallTime, Opening, UnseenEnd
from evaluator.host.hangs.incidents import GroupTrouble, IncidentKind, Observation, RanksLost
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.channel import Channel
from evaluator.host.ranks.conversation import Answers, Conversation, StandsStill, never_stands_still
from evaluator.host.ranks.observer import Observer
from evaluator.host.ranks.rank_sandbox import RankSandbox
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.stall import StallWatch
from evaluator.host.ranks.worker import Worker


class WorkerGroup:
    """The sandbox ranks of one submission; used once, then ended. Not thread-safe."""

    def __init__(self, plan: SlotPlan, *, spawner: Spawner, work_dir: Path) -> None:
        """Start the sandbox; in the background it does everything that needs no GPU. Raises EvaluatorError."""
        self.started_at = time.monotonic()
        self._plan = plan
        self._has_ranks = False
        self._is_ready = False
        self._sandbox = RankSandbox(plan, spawner=spawner, work_dir=work_dir)
        self._workers = [
            Worker(number=number, channel=Channel(ends.channel), status_page=ends.status_page)
            for number, ends in enumerate(self._sandbox.ends)
        ]
        self._conversation = Conversation(
            self._workers,
            self._sandbox.exits,
            have_ended=self._has_ended,
            launcher_text=lambda: self._sandbox.launcher_text,
            grace_s=plan.settings.grace_s,
        )
        self._observer = Observer(
            self._workers,
            keepers=self._sandbox.logs.keepers,
            source=self._sandbox.source,
            have_ended=self._has_ended,
            gpus=plan.gpus,
        )

    # ---- the conversation -------------------------------------------------------------------------------------

    def start_ranks(self) -> None:
        """Let the ranks start, which uses the GPUs. In the background, and only once."""
        if not self._has_ranks:
            self._sandbox.fork_ranks()
            self._has_ranks = True

    def wait_until_ready(
        self, *, within: Callable[[float], float] = lambda seconds: seconds, cancelled: Callable[[], bool]
    ) -> None:
        """Return once every rank has joined the process group.

        Args:
            within: shortens how long they may take.
            cancelled: asked often.

        Raises:
            RanksLost: a rank did not join, or has ended since; no submission was involved.
        """
        if not self._is_ready:
            self._join(within=within, cancelled=cancelled)
        # A rank may have joined and ended before the host reads that it joined.
        if not self.is_alive:
            said = self._sandbox.launcher_text
            raise RanksLost(f"a sandbox rank ended before it had a submission. {said}")

    def _join(self, *, within: Callable[[float], float], cancelled: Callable[[], bool]) -> None:
        """Let the ranks start, and wait until all have joined; raises EvaluatorError."""
        self.start_ranks()
        try:
            self._collect("starting", seconds=within(self._plan.settings.start_s), cancelled=cancelled)
        except GroupTrouble as trouble:
            texts = [text for seen in trouble.observations for text in (seen.error, seen.log) if text]
            said = self._sandbox.launcher_text
            raise RanksLost(f"the sandbox ranks did not start: {trouble} {said} {texts}") from trouble
        if (pid := self._workers[0].pid) is not None:
            self._sandbox.processes.hold_namespace(pid)
        self._is_ready = True

    def reveal(self, bundle: SourceBundle, *, built: Built | None = None) -> None:
        """Put the submission and its built modules where the ranks can read them; the folder was empty before."""
        self._sandbox.reveal(bundle, built=built)

    def import_submission(self, *, seconds: float, cancelled: Callable[[], bool]) -> None:
        """Let every rank import solution.py. None begins before all have read the command.

        Raises:
            GroupTrouble: not every rank has imported it.
            RanksLost: a rank ended before it read the command, so none has read the submission.
        """
        self._conversation.ask([(Command(kind=CommandKind.IMPORT), ())] * len(self._workers))
        try:
            self._collect("importing solution.py", seconds=seconds, cancelled=cancelled)
        except GroupTrouble as trouble:
            if any(worker.channel.left_unread for worker in self._workers):
                raise RanksLost(f"a sandbox rank ended before it could read the submission: {trouble}") from trouble
            raise

    def load(
        self, call: int, buffers: Sequence[Sequence[int]], *, seconds: float, cancelled: Callable[[], bool]
    ) -> None:
        """Hand every rank the files (and new device memory) of `call`; raises GroupTrouble."""
        command = Command(kind=CommandKind.LOAD, call=call)
        self._conversation.ask([(command, buffer) for buffer in buffers])
        self._collect(f"loading call {call}", seconds=seconds, cancelled=cancelled)

    def record(self, call: int, files: Sequence[int], *, seconds: float, cancelled: Callable[[], bool]) -> None:
        """Have every rank record into its file what runs, from now to the end of `call`; raises GroupTrouble."""
        command = Command(kind=CommandKind.RECORD, call=call)
        self._conversation.ask([(command, (file,)) for file in files])
        self._collect(f"starting to record call {call}", seconds=seconds, cancelled=cancelled)

    def go(
        self,
        call: int,
        *,
        opening: Opening,
        inputs: Sequence[int] = (),
        reuse: bool = False,
        count: bool = False,
        seconds: float,
        cancelled: Callable[[], bool],
    ) -> tuple[list[Report], CallTime]:
        """Run `call` on every rank.

        Args:
            call: its number.
            opening: how its gates open.
            inputs: CPU ranks get theirs now, one file per rank.
            reuse: whether CPU ranks write them into the tensors of the call before.
            count: whether library collectives in the call are counted.
            seconds: the deadline of the ranks' answers.
            cancelled: asked often.

        Returns:
            What the ranks report, and the call on the host's clock.

        Raises:
            GroupTrouble: not every rank answered.
            UnseenEnd: a rank answered, but its device has not posted the end of the call.
        """
        delays = (0,) * len(self._workers) if self._plan.clock is not None else opening.delays_us
        files = [inputs[rank : rank + 1] for rank in range(len(self._workers))]
        reports, time_taken = self._timed(
            [
                (Command(kind=CommandKind.GO, call=call, reuse=reuse, delay_us=delay, count=count), own)
                for delay, own in zip(delays, files, strict=True)
            ],
            opening,
            seconds=seconds,
            cancelled=cancelled,
        )
        for worker in self._workers:
            worker.calls_done += 1
        return reports, time_taken

    def bare(self, call: int, *, opening: Opening, seconds: float, cancelled: Callable[[], bool]) -> CallTime:
        """One bare call, while there is no submission: the overhead of a call.

        Raises:
            RanksLost: a rank did not answer, or a device did not post the end; no submission was involved.
        """
        command = Command(kind=CommandKind.BARE, call=call)
        try:
            return self._timed([(command, ())] * len(self._workers), opening, seconds=seconds, cancelled=cancelled)[1]
        except (UnseenEnd, GroupTrouble) as trouble:
            raise RanksLost(f"sandbox ranks without a submission: {trouble}") from trouble

    def loop(self, call: int, *, times: int, seconds: float, cancelled: Callable[[], bool]) -> int:
        """Run the submission `times` times back to back on the inputs of the last call.

        Returns:
            Nanoseconds from the command to the last answer, on the host's clock.

        Raises:
            GroupTrouble: not every rank answered.
        """
        begun = time.monotonic_ns()
        command = Command(kind=CommandKind.LOOP, call=call, times=times)
        self._conversation.ask([(command, ())] * len(self._workers))
        self._collect(f"{times} calls back to back", seconds=seconds, cancelled=cancelled)
        return max(self.answered_at_ns) - begun

    def _timed(
        self,
        commands: Sequence[tuple[Command, Sequence[int]]],
        opening: Opening,
        *,
        seconds: float,
        cancelled: Callable[[], bool],
    ) -> tuple[list[Report], CallTime]:
        call = commands[0][0].call
        with self._running_clock(opening, number=call, limit_s=seconds) as finish:
            begun = time.monotonic_ns()
            self._conversation.ask(commands)
            reports = self._collect(f"call {call}", seconds=seconds, cancelled=cancelled)
            if finish is not None:
                return reports, finish()
        return reports, CallTime(
            done_ns=tuple(at - begun for at in self.answered_at_ns),
            marks=tuple(protocol.fingerprint_text(report.fingerprint) for report in reports),
        )

    @contextmanager
    def _running_clock(
        self, opening: Opening, *, number: int, limit_s: float
    ) -> Iterator[Callable[[], CallTime] | None]:
        """Have a call on GPUs timed; gives its clock, to be asked once all ranks have answered. None on CPU ranks."""
        clock = self._plan.clock
        if clock is None:
            yield None
            return
        clock.begin(self._sandbox.clock_page, opening, number=number, limit_s=limit_s)
        try:
            yield clock.finish
        finally:
            clock.abandon()

    def store(self, call: int, files: Sequence[int], *, seconds: float, cancelled: Callable[[], bool]) -> None:
        """Have every rank store again what it returned in `call`, as it is now; raises GroupTrouble."""
        self._conversation.ask([(Command(kind=CommandKind.STORE, call=call), (file,)) for file in files])
        self._collect(f"call {call} (storing its outputs again)", seconds=seconds, cancelled=cancelled)

    def _collect(self, doing: str, *, seconds: float, cancelled: Callable[[], bool]) -> list[Report]:
        """One answer from every rank, or GroupTrouble with everything that is known."""
        answers = self._conversation.collect(
            seconds=seconds,
            busy_poll_s=self._plan.shares.busy_poll_s if self._is_ready else 0.0,
            stands_still=self._stall_watch(),
            cancelled=cancelled,
        )
        if not answers.is_complete:
            raise self._trouble(doing, answers)
        return [answers.reports[worker.number] for worker in self._workers]

    def _stall_watch(self) -> StandsStill:
        """Only for CPU ranks: a rank that waits for a GPU keeps its processor busy, so its hang meets the deadline."""
        if self._plan.profile.device != "cpu":
            return never_stands_still
        watch = StallWatch(
            members=self._sandbox.processes.members,
            dump=self._observer.dump_stacks,
            ranks=lambda: {worker.pid for worker in self._workers if worker.pid is not None},
            source=self._sandbox.source,
            start=time.monotonic(),
            patience_s=self._plan.settings.stall_s,
        )
        return lambda now, answered: watch.stands_still(now, self._observer.silent(answered))

    def _trouble(self, doing: str, answers: Answers) -> GroupTrouble:
        conversation, answered = self._conversation, frozenset(answers.reports)
        if not conversation.incidents:
            conversation.note(IncidentKind.OVERDUE)
        self._look_at_memory()
        is_hang = conversation.incidents[0].kind in (IncidentKind.OVERDUE, IncidentKind.STALLED)
        observe = self._observer.observe_hang if is_hang else self._observer.observe
        return GroupTrouble(conversation.incidents, observe(answered=answered), doing=doing, limit_s=answers.waited_s)

    def _look_at_memory(self) -> None:
        """Note where the kernel ended a rank, or all of the sandbox, because the group had no memory left."""
        killed = next((worker.number for worker in self._workers if worker.was_killed), None)
        has_ended = self._conversation.has_noted(IncidentKind.SANDBOX_ENDED)
        if (killed is not None or has_ended) and self._sandbox.processes.memory_kills:
            limit = self._sandbox.memory_limit
            self._conversation.note(IncidentKind.MEMORY, killed, text=f"{limit / 1e9:.1f} GB for all ranks together")

    # ---- its state --------------------------------------------------------------------------------------------

    @property
    def answered_at_ns(self) -> tuple[int, ...]:
        """When each rank last answered, on the monotonic clock."""
        return tuple(worker.answered_at_ns for worker in self._workers)

    @property
    def folder(self) -> str:
        """The name of this group's private folder in the work directory."""
        return self._sandbox.folder

    @property
    def processes(self) -> list[int]:
        """All descendants of the sandbox's first process; complete while no submission is in it."""
        return self._sandbox.processes.descendants()

    def count_processes(self) -> int:
        """How many processes the sandbox has now."""
        return len(self._sandbox.processes.members())

    def busy_ns(self) -> int:
        """Processor time that everything in the sandbox has used so far (see `SandboxProcesses.busy_ns`)."""
        return self._sandbox.processes.busy_ns()

    @property
    def is_alive(self) -> bool:
        """Whether the sandbox still runs, with every rank."""
        self._conversation.hear_exits()
        return not self._has_ended() and not any(
            worker.status is not None or worker.channel.has_hung_up for worker in self._workers
        )

    @property
    def has_ranks(self) -> bool:
        """Whether its ranks were allowed to start."""
        return self._has_ranks

    @property
    def is_ready(self) -> bool:
        """Whether its ranks have joined their process group."""
        return self._is_ready

    def observe_finished(self) -> tuple[Observation, ...]:
        """Every rank's state after a series in which all calls were answered."""
        return self._observer.observe_finished()

    def _has_ended(self) -> bool:
        return self._sandbox.processes.have_ended

    def stop(self) -> None:
        """Let all processes of the group end, and do not wait for that: `close` must follow."""
        self._sandbox.processes.stop()

    def close(self, *, within: Callable[[float], float] = lambda seconds: seconds) -> None:
        """Kill all processes of the group, check that none is left, and free the host's resources.

        Args:
            within: shortens how long they may take to end.

        Raises:
            EvaluatorError: a process of the group is left.
        """
        try:
            self._sandbox.processes.kill(within=within)
        finally:
            self._conversation.close()
            self._sandbox.close()
