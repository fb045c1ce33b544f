"""The ranks that one evaluation holds: trusted ones, and one or two worker groups."""

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from evaluator.errors import Cancelled, EvaluatorError
from evaluator.host.hangs.incidents import RanksLost
from evaluator.host.job import Job
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.host.slot import Slot

logger = logging.getLogger(__name__)

_HandedOver = TypeVar("_HandedOver")


class HeldRanks:
    """Takes ranks for an evaluation, and ends its worker groups. `close` may be called at any time."""

    def __init__(self, job: Job, slot: Slot) -> None:
        self._job = job
        self._slot = slot
        self._trusted: TrustedRanks | None = None
        self._groups: list[WorkerGroup] = []
        self._has_waited = False

    @property
    def trusted(self) -> TrustedRanks:
        """The trusted ranks; raises EvaluatorError before they are taken."""
        if self._trusted is None:
            raise EvaluatorError("there are no trusted ranks")
        return self._trusted

    @property
    def group(self) -> WorkerGroup:
        """The present worker group; raises EvaluatorError where there is none."""
        if not self._groups:
            raise EvaluatorError("there is no worker group")
        return self._groups[0]

    @property
    def are_taken(self) -> bool:
        """Whether ranks were taken."""
        return self._trusted is not None

    @property
    def has_second(self) -> bool:
        """Whether a second worker group is to come."""
        return len(self._groups) > 1

    def take(self) -> None:
        """Take all ranks that the job needs, and let them start; raises EvaluatorError."""
        self._trusted = self._slot.trusted.take()
        for _ in range(2 if self._job.second_share else 1):
            group = self._slot.waiting.take()
            self._hold(group, len(self._groups))
            self._has_waited = group.has_ranks
            group.start_ranks()

    def wait_until_ready(self) -> None:
        """Return once the ranks are ready, as none may start during a measurement; raises EvaluatorError.

        Only a second group that had to be started just now starts while the first one imports and is verified.
        """
        self._make_ready(0)
        if self._has_waited:
            self.wait_for_second()
        if self._job.is_timed:
            self._slot.waiting.wait_until_ready(Deadlines(self._job.deadlines.evaluation))

    def wait_for_second(self) -> None:
        """Return once the second worker group is ready, or at once where none is to come; raises EvaluatorError."""
        if self.has_second:
            self._make_ready(1)

    def hand_over_to_present(self, hand_over: Callable[[WorkerGroup], _HandedOver]) -> _HandedOver:
        """What `hand_over` returns for the present worker group. One whose ranks are lost in it is replaced, once.

        Raises:
            RanksLost: those of the other one, too, or there is none.
        """
        try:
            return hand_over(self.group)
        except RanksLost as lost:
            self._replace(0, lost)
            return hand_over(self.group)

    def change_group(self) -> None:
        """End the present worker group; the second one is the present one then. Raises EvaluatorError."""
        self._groups.pop(0).close()
        self._make_ready(0)

    def stop(self) -> None:
        """Let the processes of the worker groups end, without waiting for that."""
        for group in self._groups:
            group.sandbox.processes.stop()

    def close(self) -> None:
        """End the worker groups; raises EvaluatorError where a part of one is left."""
        held, self._groups = self._groups, []
        with ExitStack() as stack:
            for group in held:
                stack.callback(group.close)

    def _make_ready(self, number: int) -> None:
        """Return once a worker group is ready. One that does not start is replaced, once. Raises EvaluatorError.

        Its ranks may have started while those of another evaluation still held memory. That one's author must not
        cost this one a try.
        """
        try:
            self._groups[number].wait_until_ready()
        except RanksLost as lost:
            self._replace(number, lost)

    def _hold(self, group: WorkerGroup, number: int) -> None:
        """Keep a group, which from now on is bound by the job's deadlines."""
        group.deadlines = self._job.deadlines
        self._groups.insert(number, group)

    def _replace(self, number: int, lost: RanksLost) -> None:
        """End a worker group that has read nothing of the submission; return once another is ready in its place.

        Raises RanksLost where there is no time for another, or it does not start.
        """
        if time.monotonic() >= self._job.deadlines.evaluation:
            raise lost
        logger.warning("a worker group is replaced: %s", lost)
        try:
            self._groups.pop(number).close()
            self._hold(self._slot.waiting.start_new(), number)
            self._groups[number].wait_until_ready()
        except Cancelled:
            raise
        except (EvaluatorError, OSError) as error:
            raise RanksLost(str(error)) from error
