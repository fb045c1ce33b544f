"""The judge of one slot: a request in, a report out."""

import dataclasses
import logging
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self

import msgspec

from evaluator.contract import EvaluationReport, EvaluationRequest, Mode, Verdict, read_fields
from evaluator.errors import Cancelled, EvaluatorError, NodeFailure
from evaluator.hardware import profiles
from evaluator.host.evaluation import handover
from evaluator.host.evaluation.evaluation import Evaluation
from evaluator.host.job import Job, ReportProgress, no_progress
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.sandbox.bubblewrap import Confinement
from evaluator.host.settings import JudgeSettings
from evaluator.host.slot import Slot
from evaluator.judging import cross_check

logger = logging.getLogger(__name__)

_ERROR_LOG_CHARACTERS = 64 * 1024


class Judge:
    """Judges for one slot, one evaluation at a time, and proves after each that the slot may take more work.

    A context manager; `close` ends every process that it started.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        """Start a `Slot`, and raise what that raises."""
        read_fields()
        self.settings = settings
        self.profile = profiles.get(settings.profile)
        self.slot = Slot(settings)
        self._turn = threading.Lock()
        self._cross_judge: Judge | None = None
        self._unclean = ""
        self._errors: list[str] = []

    @property
    def confinement(self) -> Confinement:
        """How submissions are confined here, and the probes behind that."""
        return self.slot.resources.confinement

    @property
    def quarantine(self) -> str:
        """Why this slot must not take more work; empty while it is clean."""
        return self._unclean or self.slot.trusted.wrong

    @property
    def error_log(self) -> str:
        """Errors of the judge in the last evaluation, for the operator only; empty where there were none."""
        return "\n\n".join(self._errors)[:_ERROR_LOG_CHARACTERS]

    def evaluate(
        self,
        request: EvaluationRequest,
        *,
        progress: ReportProgress = no_progress,
        cancelled: Callable[[], bool] = lambda: False,
        deadlines: Deadlines | None = None,
    ) -> EvaluationReport:
        """Judge one submission.

        Args:
            request: what to judge; its profile must be this slot's.
            progress: called at every stage with stage, detail, and fraction or None, and after each point of a sweep.
            cancelled: polled; once true, the evaluation ends and cleans up.
            deadlines: when it should be over, in place of `cancelled`; None for the slot's `evaluation_s` from now.

        Returns:
            The report. An error of the judge is a verdict, never an exception. It is JUDGE_FAILURE where the node
            proved to be faulty, and JUDGE_ERROR where a submission was being handled and the node works. It is
            UNSUPPORTED where the judge lacks memory only beside the submission. `error_log` then holds the error.

        Raises:
            Cancelled: `cancelled()` became true.
        """
        with self._turn:
            job = Job(
                request=request,
                resources=self.slot.resources,
                deadlines=deadlines or Deadlines(time.monotonic() + self.settings.evaluation_s, cancelled),
                progress=progress,
            )
            report = self._evaluate(job)
            return self._cross_checked(job, report) if self._needs_cross_check(job, report) else report

    def _evaluate(self, job: Job) -> EvaluationReport:
        """Judge on the ranks of this slot's profile."""
        slot = self.slot
        with slot.held(job.deadlines):
            evaluation = Evaluation(job, slot)
            started_at = _now()
            # The last canary counts for this evaluation, too.
            slot.trusted.canaries = slot.trusted.canaries[-1:]
            self._errors = []
            try:
                self._check_quarantine()
                evaluation.run()
            except Cancelled:
                raise
            except NodeFailure as error:
                self._note(evaluation, error, is_nodes=True)
                self._drop_trusted(evaluation)
            except Exception as error:  # noqa: BLE001 - every error of the judge becomes a verdict here
                self._note(evaluation, error, is_nodes=not evaluation.is_in_play)
                self._drop_trusted(evaluation)
            finally:
                self._end(evaluation, job.deadlines)
            return evaluation.report(started_at=started_at, finished_at=_now())

    def _check_quarantine(self) -> None:
        """Raises EvaluatorError where the slot must not take more work."""
        if self.quarantine:
            raise EvaluatorError(f"this slot is not clean and takes no more work: {self.quarantine}")

    def close(self) -> None:
        """End every process of this judge, and remove its files."""
        self._close_cross_judge()
        self.slot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what passes a check is checked on the other number of ranks of the machine ----------------------------

    def _needs_cross_check(self, job: Job, report: EvaluationReport) -> bool:
        """Whether `report` is a pass that is to be checked, without times, on the other number of ranks."""
        request, name = job.request, self.profile.cross_check
        if (
            not self.settings.cross_check
            or not name
            or request.mode in (Mode.PROFILE, Mode.SWEEP, Mode.PUBLISHED)
            or request.regime
        ):
            return False
        other = profiles.get(name)
        sizes = request.sizes or other.sizes[Mode.CHECK]
        return report.verdict is Verdict.PASSED and job.problem.refuses(other.world_size, sizes) is None

    def _cross_checked(self, job: Job, report: EvaluationReport) -> EvaluationReport:
        """`report`, which passed, joined with the result there; raises Cancelled."""
        name = self.profile.cross_check
        ranks = profiles.get(name).world_size
        if time.monotonic() >= job.deadlines.evaluation:
            return cross_check.unseen(report, world_size=ranks, why="the time of the evaluation was used up")
        try:
            if self._cross_judge is None or self._cross_judge.quarantine:
                self._close_cross_judge()
                # Four ranks share the processors of two, and what pairs of regimes show has mostly been seen.
                settings = dataclasses.replace(
                    self.settings, profile=name, cross_check=False, is_short=True, records_work=False
                )
                self._cross_judge = Judge(settings)
        except EvaluatorError as error:
            return cross_check.unseen(report, world_size=ranks, why=str(error))
        second = self._cross_judge.evaluate(
            msgspec.structs.replace(job.request, profile=name, mode=Mode.CHECK),
            progress=lambda stage, detail, fraction, _points=(): job.progress(
                stage, f"on {ranks} ranks: {detail}", fraction
            ),
            deadlines=job.deadlines,
        )
        self._errors += [self._cross_judge.error_log] if self._cross_judge.error_log else []
        return cross_check.combined(report, second)

    def _close_cross_judge(self) -> None:
        judge, self._cross_judge = self._cross_judge, None
        if judge is not None:
            judge.close()

    # ---- the end of an evaluation, and what is proved after it --------------------------------------------------

    def _end(self, evaluation: Evaluation, deadlines: Deadlines) -> None:
        """Clean up after an evaluation; meanwhile, or afterwards, let the next one's ranks start."""
        slot = self.slot
        slot.trusted.limit(deadlines.ending)
        evaluation.ranks.stop()
        if evaluation.findings.ended_well and not self.quarantine:
            slot.start_prepared()
        try:
            evaluation.close()
        except (EvaluatorError, OSError) as error:
            self._quarantine_for(evaluation, error)
        if evaluation.findings.awaits_proof and not self.quarantine:
            self._rehearse(evaluation, deadlines)
        if evaluation.ranks.are_taken and not self.quarantine:
            self._prove_clean(evaluation, deadlines)
        if (evaluation.has_stuck_ranks or slot.trusted.are_spent) and not self.quarantine:
            self._drop_trusted(evaluation)
            slot.start_trusted()
        if not self.quarantine:
            slot.refill()

    def _prove_clean(self, evaluation: Evaluation, deadlines: Deadlines) -> None:
        """After an evaluation that used ranks: check that nothing of it is left, and that the devices work.

        Leftovers do not prove that the node was faulty before; the driver and the canary do.
        """
        health = self.slot.health
        self._unclean = "; ".join(health.leftovers(within=deadlines.ending))
        if self._unclean:
            self._note(evaluation, EvaluatorError(self._unclean), is_nodes=health.is_driver_ill)
            self._drop_trusted(evaluation)
            return
        try:
            self.slot.trusted.prove(is_full=evaluation.findings.ended_badly)
        except EvaluatorError as error:
            self._note(evaluation, error, is_nodes=not deadlines.is_over)
            self._drop_trusted(evaluation)

    def _rehearse(self, evaluation: Evaluation, deadlines: Deadlines) -> None:
        """After an error of the judge: can this node judge the problem without the submission? If not, it is faulty.

        New trusted ranks run the canary and a call of the reference at every size. A lack of resources in that, such as
        memory, is never attributed to the submission. Where the time is used up, nothing is proved.
        """
        self._drop_trusted(evaluation)
        if self.quarantine or deadlines.is_over:
            return
        try:
            handover.rehearse(evaluation.job, self.slot.trusted.take())
        except Exception as error:  # noqa: BLE001 - no submission is left that could cause it
            self._note(evaluation, error, is_nodes=not deadlines.is_over)
            self._drop_trusted(evaluation)

    def _drop_trusted(self, evaluation: Evaluation) -> None:
        """End the trusted ranks. If they stay, the slot is not clean."""
        try:
            self.slot.trusted.drop()
        except EvaluatorError as error:
            self._quarantine_for(evaluation, error)

    def _quarantine_for(self, evaluation: Evaluation, error: Exception) -> None:
        """Something of an evaluation did not end: the slot is not clean."""
        self._unclean = str(error)
        self._note(evaluation, error, is_nodes=False)

    def _note(self, evaluation: Evaluation, error: Exception, *, is_nodes: bool) -> None:
        """Keep an error of the judge for the operator, and note it in the evaluation."""
        self._errors.append("".join(traceback.format_exception(error)))
        logger.error("evaluation %s: our error", evaluation.job.request.evaluation_id, exc_info=error)
        evaluation.findings.add_error(error, is_nodes=is_nodes)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
