"""The ranks that one evaluation holds: trusted ones, and one or two worker groups."""

from collections.abc import Callable
from contextlib import ExitStack

from evaluator.errors import EvaluatorError
from evaluator.host.evaluation.job import Job
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.waiting_groups import WaitingGroups
from evaluator.host.ranks.worker_group import WorkerGroup


class HeldRanks:
    """Takes ranks for an evaluation, and ends its worker groups. `close` may be called at any time."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._trusted: TrustedRanks | None = None
        self._group: WorkerGroup | None = None
        self._second: WorkerGroup | None = None

    @property
    def trusted(self) -> TrustedRanks:
        """The trusted ranks; raises EvaluatorError before they are taken."""
        if self._trusted is None:
            raise EvaluatorError("there are no trusted ranks")
        return self._trusted

    @property
    def group(self) -> WorkerGroup:
        """The present worker group; raises EvaluatorError where there is none."""
        if self._group is None:
            raise EvaluatorError("there is no worker group")
        return self._group

    @property
    def are_taken(self) -> bool:
        """Whether ranks were taken."""
        return self._trusted is not None

    @property
    def has_second(self) -> bool:
        """Whether a second worker group is to come."""
        return self._second is not None

    def take(self, take_trusted: Callable[[], TrustedRanks], waiting: WaitingGroups) -> None:
        """Take all ranks that the job needs, and wait for those that come first; raises EvaluatorError."""
        self._trusted = take_trusted()
        self._group = waiting.take()
        if self._job.second_share:
            # If none was waiting, it starts while the first worker group imports and is verified.
            self._second = waiting.take()
            self._second.start_ranks()
        self._group.wait_until_ready(within=self._job.hold.answer, cancelled=self._job.cancelled)
        if self._job.mode.is_timed:
            # No process may start during a measurement.
            waiting.wait_until_ready()

    def wait_for_second(self) -> None:
        """Return once the second worker group is ready, or at once where none is to come; raises EvaluatorError."""
        if self._second is not None:
            self._second.wait_until_ready(within=self._job.hold.answer, cancelled=self._job.cancelled)

    def change_group(self) -> None:
        """End the present worker group; the second one is the present one then. Raises EvaluatorError."""
        first, self._group, self._second = self._group, self._second, None
        if first is not None:
            first.close(within=self._job.hold.killing)
        self.group.wait_until_ready(within=self._job.hold.answer, cancelled=self._job.cancelled)

    def close(self) -> None:
        """End the worker groups; raises EvaluatorError where a part of one is left."""
        held, self._group, self._second = (self._group, self._second), None, None
        with ExitStack() as stack:
            for group in held:
                if group is not None:
                    stack.callback(group.close, within=self._job.hold.killing)
