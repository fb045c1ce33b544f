"""Commands to the ranks of one worker group: each goes to all of them, and each rank gives one answer."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from evaluator.arena import protocol
from evaluator.arena.protocol import Command, CommandKind, Report
from evaluator.host.clock.call_clock import CallTime, ClockPage, Opening, UnseenEnd
from evaluator.host.hangs.incidents import GroupTrouble, RanksLost
from evaluator.host.ranks.answer_collector import AnswerCollector
from evaluator.host.ranks.conversation import Conversation
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.worker import Worker


class RankCommands:
    """Has ranks that are ready do something, all at the same time. Not thread-safe.

    In every command `seconds` is the deadline of the ranks' answers, and `cancelled` is asked often.

    Args:
        plan: the slot's.
        workers: all of them, in order.
        conversation: takes commands to them.
        collector: takes their answers.
        clock_page: through it calls are timed on GPUs.
    """

    def __init__(
        self,
        plan: SlotPlan,
        *,
        workers: Sequence[Worker],
        conversation: Conversation,
        collector: AnswerCollector,
        clock_page: ClockPage,
    ) -> None:
        self._clock = plan.clock
        self._busy_poll_s = plan.shares.busy_poll_s
        self._workers = workers
        self._conversation = conversation
        self._collector = collector
        self._clock_page = clock_page

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
            seconds: the deadline of the answers.
            cancelled: asked often.

        Returns:
            What the ranks report, and the call on the host's clock.

        Raises:
            GroupTrouble: not every rank answered.
            UnseenEnd: a rank answered, but its device has not posted the end of the call.
        """
        delays = (0,) * len(self._workers) if self._clock is not None else opening.delays_us
        files = [inputs[rank : rank + 1] for rank in range(len(self._workers))]
        reports, time_taken = self._timed(
            [
                (
                    Command(
                        kind=CommandKind.GO,
                        call=call,
                        reuse=reuse,
                        delay_us=delay,
                        count=count,
                        is_open=opening.is_early,
                    ),
                    own,
                )
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
        return max(self._answered_at_ns) - begun

    def store(self, call: int, files: Sequence[int], *, seconds: float, cancelled: Callable[[], bool]) -> None:
        """Have every rank store again what it returned in `call`, as it is now; raises GroupTrouble."""
        self._conversation.ask([(Command(kind=CommandKind.STORE, call=call), (file,)) for file in files])
        self._collect(f"call {call} (storing its outputs again)", seconds=seconds, cancelled=cancelled)

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
            done_ns=tuple(at - begun for at in self._answered_at_ns),
            marks=tuple(protocol.fingerprint_text(report.fingerprint) for report in reports),
        )

    @contextmanager
    def _running_clock(
        self, opening: Opening, *, number: int, limit_s: float
    ) -> Iterator[Callable[[], CallTime] | None]:
        """Have a call on GPUs timed; gives its clock, to be asked once all ranks have answered. None on CPU ranks."""
        clock = self._clock
        if clock is None:
            yield None
            return
        clock.begin(self._clock_page, opening, number=number, limit_s=limit_s)
        try:
            yield clock.finish
        finally:
            clock.abandon()

    def _collect(self, doing: str, *, seconds: float, cancelled: Callable[[], bool]) -> list[Report]:
        return self._collector.collect(doing, seconds=seconds, busy_poll_s=self._busy_poll_s, cancelled=cancelled)

    @property
    def _answered_at_ns(self) -> tuple[int, ...]:
        """When each rank last answered, on the monotonic clock."""
        return tuple(worker.answered_at_ns for worker in self._workers)
