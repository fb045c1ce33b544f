"""The answers of one worker group's ranks to a command, or why one of them is missing."""

import time
from collections.abc import Callable, Sequence

from evaluator.arena.protocol import Report
from evaluator.host.hangs.incidents import GroupTrouble, IncidentKind
from evaluator.host.ranks.conversation import Answers, Conversation, StandsStill, never_stands_still
from evaluator.host.ranks.observer import Observer
from evaluator.host.ranks.rank_sandbox import RankSandbox
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.stall import StallWatch
from evaluator.host.ranks.worker import Worker


class AnswerCollector:
    """Collects one answer from every rank, or everything that is known where one does not come.

    Args:
        plan: the slot's.
        workers: all of them, in order.
        conversation: what they say.
        observer: looks at them from outside.
        sandbox: in which they run.
    """

    def __init__(
        self,
        plan: SlotPlan,
        *,
        workers: Sequence[Worker],
        conversation: Conversation,
        observer: Observer,
        sandbox: RankSandbox,
    ) -> None:
        self._plan = plan
        self._workers = workers
        self._conversation = conversation
        self._observer = observer
        self._sandbox = sandbox

    def collect(
        self, doing: str, *, seconds: float, busy_poll_s: float = 0.0, cancelled: Callable[[], bool]
    ) -> list[Report]:
        """The ranks' answers, in order.

        Args:
            doing: what the ranks do, in words.
            seconds: how long they may take.
            busy_poll_s: for so long the channels are polled without sleeping.
            cancelled: asked often.

        Raises:
            GroupTrouble: not every rank answered.
            EvaluationCancelled: `cancelled()` became true.
        """
        answers = self._conversation.collect(
            seconds=seconds, busy_poll_s=busy_poll_s, stands_still=self._stall_watch(), cancelled=cancelled
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
        killed = next((worker.number for worker in self._workers if worker.may_have_been_killed), None)
        has_ended = self._conversation.has_noted(IncidentKind.SANDBOX_ENDED)
        if (killed is not None or has_ended) and self._sandbox.processes.memory_kills:
            limit = self._sandbox.memory_limit
            self._conversation.note(IncidentKind.MEMORY, killed, text=f"{limit / 1e9:.1f} GB for all ranks together")
