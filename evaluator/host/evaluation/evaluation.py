"""One evaluation, from request to report."""

import hashlib
import itertools
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from evaluator.contract import EvaluationReport, EvaluationRequest, Stage
from evaluator.errors import NodeTrouble, SubmissionFault
from evaluator.host.building.builder import Builder
from evaluator.host.building.what_to_build import is_needed
from evaluator.host.evaluation import conclusion, recorded_reference, reference_alone, report, reveal, source
from evaluator.host.evaluation.findings import Findings
from evaluator.host.evaluation.held_ranks import HeldRanks
from evaluator.host.evaluation.job import Job
from evaluator.host.evaluation.outcomes import Outcomes
from evaluator.host.evaluation.reference_alone import ReferenceAlone
from evaluator.host.evaluation.report import Circumstances
from evaluator.host.evaluation.reveal import BeforeReveal
from evaluator.host.evaluation.sizes import SizeRuns, drawn_regimes
from evaluator.host.evaluation.stage_times import StageTimes
from evaluator.host.evaluation.trouble import TroubleWatch, without_the_submission
from evaluator.host.hangs.diagnosis import rank_states
from evaluator.host.hangs.incidents import RanksLost
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure.evidence import Ended
from evaluator.host.measure.group_setup import GroupSetup
from evaluator.host.measure.references import RecordedReferences
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.process.helper_process import HelperProcess
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.waiting_groups import WaitingGroups
from evaluator.host.ranks.worker_group import WorkerGroup


class Evaluation:
    """Runs the stages of one evaluation, and keeps what they return for the report.

    Attributes:
        is_in_play: whether the judge already handles bytes of the submission, so that they may cause an error of the
            judge.
        findings: what it has found so far. The judge of the slot adds its own errors.
    """

    def __init__(
        self,
        request: EvaluationRequest,
        *,
        plan: SlotPlan,
        builder: Builder,
        helper: HelperProcess,
        references: RecordedReferences,
        work_dir: Path,
        deadlines: Deadlines,
        progress: Callable[[Stage, str, float | None], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self._job = Job(request=request, plan=plan, deadlines=deadlines, cancelled=cancelled)
        self._builder = builder
        self._helper = helper
        self._references = references
        self._work_dir = work_dir
        self._progress = progress
        self._stages = StageTimes(request.evaluation_id, progress=progress)
        self.findings = Findings(request.problem)
        self._outcomes = Outcomes()
        self._ranks = HeldRanks(self._job)
        self._trouble = TroubleWatch(plan.confinement.level)
        self._watch = SlotWatch(plan.gpus)
        self._alone = ReferenceAlone(self._job, watch=self._watch, stages=self._stages)
        self._key = secrets.token_bytes(32)
        self._draws = itertools.count()
        self._numbers = itertools.count(1)
        self.is_in_play = False

    # ---- the stages, in their order ---------------------------------------------------------------------------

    def run(
        self,
        *,
        take_trusted: Callable[[], TrustedRanks],
        waiting: WaitingGroups,
        prepare_next: Callable[[], None],
    ) -> None:
        """Judge, stage by stage, with worker groups taken from `waiting`.

        `prepare_next` is called once this evaluation has its groups.

        Raises:
            EvaluationCancelled: `cancelled()` became true.
            EvaluatorError: the judge or its node failed.
        """
        try:
            self._job.check()
            self.is_in_play = True
            self._read_source()
            self._compile()
            self._take_ranks(take_trusted, waiting)
            self._alone.open(self._ranks.trusted)
            self._wait_for_ranks(waiting)
            prepare_next()
            self._outcomes.alone = self._alone.time(self._ranks.trusted)
            self._run_group(1, key=self._key, share=1 - self._job.second_share)
            self._run_second_group()
            self._record_reference()
            self._conclude()
        except Ended as ended:
            self.findings.add(ended.findings)
            self._outcomes.ranks = ended.ranks or self._outcomes.ranks
        except SubmissionFault as fault:
            self.findings.add_fault(fault)

    def _read_source(self) -> None:
        with self._stages.enter(Stage.PREPARING, "reading the source"):
            reading = self._outcomes.reading = source.read(self._job, self._helper)
        self.findings.add_before_ranks(reading.findings)

    def _compile(self) -> None:
        if not is_needed(self._job.request):
            return
        with self._stages.enter(Stage.BUILDING, "compiling"):
            built = self._outcomes.built = source.compile_ahead(self._job, self._builder, work_dir=self._work_dir)
        self.findings.add_before_ranks(built.findings)

    def _take_ranks(self, take_trusted: Callable[[], TrustedRanks], waiting: WaitingGroups) -> None:
        with self._stages.enter(Stage.STARTING, "taking the ranks"), without_the_submission():
            self._ranks.take(take_trusted, waiting)

    def _wait_for_ranks(self, waiting: WaitingGroups) -> None:
        begun = time.monotonic()
        with self._stages.enter(Stage.STARTING, "waiting for the ranks"), without_the_submission():
            self._ranks.wait_until_ready(waiting)
        self._outcomes.ranks_wait_s = time.monotonic() - begun

    def _run_group(self, number: int, *, key: bytes, share: float) -> None:
        """Give the submission to the present group and make its calls at all sizes, within a `share` of the budget."""
        before = self._reveal(is_first=number == 1)
        SizeRuns(
            job=self._job,
            setup=self._setup(number, before, key=key, share=share),
            trouble=self._trouble,
            known=self._outcomes.by_size,
            before_timing=self._ranks.wait_for_second,
            keep=self._outcomes.sizes.append,
        ).run()

    def _reveal(self, *, is_first: bool) -> BeforeReveal:
        """Give the submission to the present group; raises NodeTrouble where no group lives until it can read it."""
        with self._stages.enter(Stage.STARTING, "importing solution.py"):
            try:
                return self._ranks.reveal_to_present(lambda group: self._reveal_to(group, is_first=is_first))
            except RanksLost as lost:
                if is_first:
                    raise NodeTrouble(str(lost)) from lost
                raise  # a second group may have been disturbed while the first ran the submission

    def _reveal_to(self, group: WorkerGroup, *, is_first: bool) -> BeforeReveal:
        job = self._job
        with self._trouble.over(group, size=None):
            before = reveal.measure(
                job, group=group, trusted=self._ranks.trusted, trouble=self._trouble, is_first=is_first
            )
            if is_first:
                alone = (reading for at_size in self._outcomes.alone.values() for reading in at_size.gpus)
                self._outcomes.revealing = reveal.refuse_slow_gpus(job, self._watch, alone=tuple(alone))
            reveal.reveal(job, group, built=self._outcomes.built)
        return before

    def _setup(self, number: int, before: BeforeReveal, *, key: bytes, share: float) -> GroupSetup:
        job = self._job
        return GroupSetup(
            problem=job.problem,
            dtype=job.dtype,
            key=key,
            plan=job.plan,
            trusted=self._ranks.trusted,
            group=self._ranks.group,
            group_number=number,
            bare=before.bare,
            memory=before.memory,
            watch=self._watch,
            policy=job.policy,
            draws=self._draws,
            numbers=self._numbers,
            first_call_s=job.first_call_s(self._outcomes.built),
            regimes=drawn_regimes(job),
            only=job.only_regime,
            budget_s=job.series_s * share / len(job.sizes),
            stages=self._stages.enter,
        )

    def _run_second_group(self) -> None:
        """Run part of a ranked series again in a new group with other secrets. Its times count like the first's."""
        if not self._ranks.has_second:
            return
        self._see_ranks()
        self._ranks.change_group()
        key = hashlib.sha256(self._key + b"second worker group").digest()
        try:
            self._run_group(2, key=key, share=self._job.second_share)
        except Ended as ended:
            found = (*ended.findings, conclusion.disagreement(ended.findings))
            raise Ended(found, ranks=ended.ranks) from ended

    def _record_reference(self) -> None:
        """It comes after everything that is timed, which another process on the GPUs could slow."""
        timeline = self._outcomes.timeline
        if timeline is None or not self._job.mode.records_reference:
            return
        with self._stages.enter(Stage.COMPARING, f"{timeline.size}: recording the reference"):
            self._outcomes.reference = recorded_reference.record(
                self._job, self._references, self._ranks.trusted, size=timeline.size
            )

    def _conclude(self) -> None:
        """All evidence is complete: compute the timing and note the pass."""
        job, outcomes = self._job, self._outcomes
        if job.mode.is_timed:
            with self._stages.enter(Stage.COMPARING, "comparing with the reference"):
                timed = conclusion.compare(job, outcomes.records)
            outcomes.timing = timed.timing
            self.findings.add(timed.findings)
        self._see_ranks()
        self.findings.add(
            [conclusion.passed(job, results=outcomes.results, records=outcomes.records, timed=outcomes.timing)]
        )

    def _see_ranks(self) -> None:
        self._outcomes.ranks = rank_states(self._ranks.group.observe_finished())

    # ---- what the judge of the slot asks ----------------------------------------------------------------------

    @property
    def evaluation_id(self) -> str:
        """The identifier of this evaluation."""
        return self._job.request.evaluation_id

    @property
    def has_held_ranks(self) -> bool:
        """Whether a worker group was taken for this evaluation."""
        return self._ranks.are_taken

    @property
    def has_stuck_ranks(self) -> bool:
        """Whether ranks did not finish the recorded call of the reference."""
        return self._outcomes.reference.has_stuck_ranks

    def rehearse(self, trusted: TrustedRanks) -> None:
        """A few calls of the reference at every size, without the submission; raises EvaluatorError."""
        reference_alone.rehearse(self._job, trusted)

    def stop(self) -> None:
        """Let the processes of the worker groups end, without waiting for that."""
        self._ranks.stop()

    def close(self) -> None:
        """End the worker groups, and release what was held; raises EvaluatorError where a part of one is left."""
        self._watch.close()
        self._ranks.close()

    def report(self, circumstances: Circumstances) -> EvaluationReport:
        """The report of everything so far."""
        self._progress(Stage.REPORTING, "writing the report", None)
        return report.written(
            self._job,
            self._outcomes,
            self.findings,
            circumstances,
            stages=self._stages.all(),
            commitment=hashlib.sha256(self._key).hexdigest(),
        )
