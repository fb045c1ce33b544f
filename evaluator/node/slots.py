"""A slot of a node: one judge for the life of the node, and one evaluation at a time."""

import contextvars
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace

import msgspec

from evaluator.contract import (
    Assignment,
    EvaluationReport,
    EvaluationRequest,
    SandboxLevel,
    SlotState,
    SlotStatus,
    Verdict,
    request_fields,
)
from evaluator.errors import Cancelled, EvaluatorError
from evaluator.hardware import profiles
from evaluator.host import Judge
from evaluator.host.job import ReportProgress
from evaluator.host.process.deadlines import MOST_OVERRUN_S
from problems import registry

logger = logging.getLogger(__name__)


class Slot:
    """Judges one evaluation at a time. `changed` is called whenever its state changes."""

    def __init__(
        self,
        index: int,
        profile: str,
        *,
        make_judge: Callable[[str], Judge],
        changed: Callable[[], None],
        most_overrun_s: float = MOST_OVERRUN_S + 5.0,
    ) -> None:
        """Make it; `most_overrun_s` after an evaluation's deadline a judge that has not ended it is given up."""
        self._most_overrun_s = most_overrun_s
        self.index = index
        self.profile = profile
        self._make_judge = make_judge
        self._changed = changed
        self._turn = threading.Lock()
        self._judge: Judge | None = None
        self._state = SlotState.STARTING
        self._note = ""
        self._is_quarantined = False
        self._running: Assignment | None = None

    @property
    def status(self) -> SlotStatus:
        """The slot's status for heartbeats."""
        running = self._running
        return SlotStatus(
            index=self.index,
            profile=self.profile,
            state=self._state,
            evaluation_id=running.request.evaluation_id if running else None,
            note=self._note,
        )

    @property
    def sandbox(self) -> SandboxLevel:
        """How well submissions are confined here; NONE until the judge has started."""
        judge = self._judge
        return judge.confinement.level if judge is not None else SandboxLevel.NONE

    def prepare(self) -> None:
        """Start the judge, so that the first evaluation does not wait for it."""
        with self._turn:
            self._ensure_judge()

    def judge(self, assignment: Assignment, *, progress: ReportProgress, cancelled: Callable[[], bool]) -> "Judged":
        """The report on an assignment, and the judge's errors.

        The report repeats the earlier tries from the request, so that it shows why there is another.
        """
        with self._turn:
            self._running = assignment
            try:
                judged = self._judged(assignment.request, progress, cancelled)
                report = msgspec.structs.replace(judged.report, earlier=assignment.request.earlier)
                return replace(judged, report=report)
            finally:
                self._running = None
                self._heed_quarantine(assignment)
                self._move(SlotState.FREE if self._judge else SlotState.QUARANTINED)

    def close(self) -> None:
        """End the judge and all its processes."""
        if self._judge is not None:
            self._judge.close()

    def _judged(self, request: EvaluationRequest, progress: ReportProgress, cancelled: Callable[[], bool]) -> "Judged":
        self._move(SlotState.BUSY)
        refusal = self._refusal(request)
        if refusal is not None:
            return Judged(report=failure_report(request, refusal))
        judge = self._ensure_judge()
        if judge is None:
            return Judged(report=failure_report(request, f"the judge of this slot does not start: {self._note}"))
        try:
            report = self._evaluated(judge, request, progress=progress, cancelled=cancelled)
            return Judged(report=report, error_log=judge.error_log)
        except JudgeStuck as stuck:
            self._quarantine(request, "the judge did not end in time", log=str(stuck))
            message = "the judge did not end in time while it handled this submission"
            return Judged(report=failure_report(request, message, verdict=Verdict.JUDGE_ERROR), error_log=str(stuck))
        except Cancelled as error:
            return Judged(report=failure_report(request, str(error)))
        except Exception as error:
            # The last handler: an error that the judge itself missed must not end the node.
            logger.exception("evaluation %s met an error in the judge", request.evaluation_id)
            self._discard_judge()
            message = f"the judge had an internal error ({type(error).__name__}) while it handled this submission"
            report = failure_report(request, message, verdict=Verdict.JUDGE_ERROR)
            return Judged(report=report, error_log=traceback.format_exc())

    def _evaluated(
        self, judge: Judge, request: EvaluationRequest, *, progress: ReportProgress, cancelled: Callable[[], bool]
    ) -> EvaluationReport:
        """The judge's report, from a thread that can be left behind.

        A judge bounds its own steps. This bounds what it cannot: its own code, or the kernel, standing still.

        Raises:
            JudgeStuck: it has not ended within its deadline and the time after it.
        """
        limit_s = judge.settings.evaluation_s + self._most_overrun_s
        done: Future[EvaluationReport] = Future()

        def evaluate() -> None:
            try:
                done.set_result(judge.evaluate(request, progress=progress, cancelled=cancelled))
            except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
                done.set_exception(error)

        # Log lines of this evaluation carry what this thread's do.
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(evaluate,), name=f"judging-{self.index}", daemon=True)
        thread.start()
        try:
            return done.result(timeout=limit_s)
        except TimeoutError as error:
            if done.done():
                raise
            stack = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - the documented way to see another thread
            where = "".join(traceback.format_stack(stack)) if stack is not None else ""
            raise JudgeStuck(f"the judge has not ended {limit_s:g} s after it began:\n{where}") from error

    def _heed_quarantine(self, assignment: Assignment) -> None:
        """Take no more work once the judge reports that the slot is not clean; only a restart ends this."""
        judge = self._judge
        if judge is not None and judge.quarantine:
            self._quarantine(assignment.request, judge.quarantine, log=judge.quarantine)
            judge.close()

    def _quarantine(self, request: EvaluationRequest, why: str, *, log: str) -> None:
        """Give up the judge. The processes of one that hangs end with this node's."""
        self._judge = None
        self._is_quarantined = True
        self._note = f"since evaluation {request.evaluation_id}: {why}. Clean the machine, then restart the node"
        logger.error("slot %d is in quarantine since evaluation %s: %s", self.index, request.evaluation_id, log)

    def _refusal(self, request: EvaluationRequest) -> str | None:
        if request.profile != self.profile:
            return f"slot {self.index} judges for {self.profile}, not for {request.profile}"
        try:
            installed = registry.revision(request.problem)
        except registry.UnknownProblem as error:
            return f"the node does not have the problem: {error}"
        if installed != request.revision:
            return (
                f"the node has revision {installed} of {request.problem}, and was asked for {request.revision}; "
                "the operator has to bring site and node to the same version"
            )
        return None

    def _ensure_judge(self) -> Judge | None:
        if self._judge is None and not self._is_quarantined:
            try:
                self._judge = self._make_judge(self.profile)
            except (EvaluatorError, OSError, ValueError) as error:
                logger.exception("slot %d cannot start its judge", self.index)
                self._note = str(error)
                self._move(SlotState.QUARANTINED)
                return None
            self._note = ""
            if self._running is None:
                self._move(SlotState.FREE)
        return self._judge

    def _discard_judge(self) -> None:
        judge, self._judge = self._judge, None
        if judge is not None:
            judge.close()
        self._ensure_judge()

    def _move(self, state: SlotState) -> None:
        if state is not self._state:
            self._state = state
            self._changed()


class JudgeStuck(Exception):
    """A judge hangs; the text says where."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A report, and for the operator only the judge's errors."""

    report: EvaluationReport
    error_log: str = ""


def failure_report(
    request: EvaluationRequest, message: str, *, verdict: Verdict = Verdict.JUDGE_FAILURE
) -> EvaluationReport:
    """A report that the judge failed, and why."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return EvaluationReport(
        **request_fields(request, world_size=profiles.get(request.profile).world_size, dtype=request.dtype or ""),
        verdict=verdict,
        message=message[:4000],
        started_at=now,
        finished_at=now,
    )
