"""One evaluation, from request to report."""

import hashlib
import itertools
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from evaluator.contract import EvaluationReport, Finding, Mode, Stage, Verdict
from evaluator.errors import EvaluatorError, LimitExceeded, NodeFailure, SubmissionFault
from evaluator.host.building.what_to_build import is_needed
from evaluator.host.evaluation import evidence, handover, report, sweep
from evaluator.host.evaluation.evidence import Findings, Outcomes
from evaluator.host.evaluation.failures import FailureGuard, without_the_submission
from evaluator.host.evaluation.held_ranks import HeldRanks
from evaluator.host.hangs.diagnosis import rank_states
from evaluator.host.hangs.incidents import RanksLost
from evaluator.host.job import Job
from evaluator.host.machine import backends, nvml
from evaluator.host.machine.gpus import too_large
from evaluator.host.machine.slot_watch import SlotWatch
from evaluator.host.measure.evidence import Ended
from evaluator.host.measure.group_run import BareCallTimes, GroupRun
from evaluator.host.measure.schedule import drawn_regimes
from evaluator.host.measure.size_run import SizeRun
from evaluator.host.process import limited
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.host.slot import Slot
from evaluator.judging import source_rules, timing
from evaluator.judging.reading import READ_SOURCE, SourceReading

logger = logging.getLogger(__name__)


class Evaluation:
    """Runs the stages of one evaluation, and keeps what they return for the report.

    Attributes:
        job: what is judged, on which slot.
        is_in_play: whether the judge already handles bytes of the submission, so that they may cause an error of the
            judge.
        findings: what it has found so far. The judge of the slot adds its own errors.
        ranks: those that it holds.
        has_stuck_ranks: whether trusted ranks did not finish the recorded call of the reference.
    """

    def __init__(self, job: Job, slot: Slot) -> None:
        self.job = job
        self._slot = slot
        self.findings = Findings(job.request.problem)
        self._outcomes = Outcomes()
        self.ranks = HeldRanks(job, slot)
        self._guard = FailureGuard(job.resources.confinement.level)
        self._watch = SlotWatch(job.resources.gpus)
        self._key = secrets.token_bytes(32)
        self._draws = itertools.count()
        self._numbers = itertools.count(1)
        self.is_in_play = False
        self.has_stuck_ranks = False

    # ---- the stages, in their order ---------------------------------------------------------------------------

    def run(self) -> None:
        """Judge, stage by stage.

        Raises:
            Cancelled: the job was cancelled.
            EvaluatorError: the judge or its node failed.
        """
        try:
            self.job.check()
            self.is_in_play = True
            self._read_source()
            self._compile()
            self._take_ranks()
            opened = handover.first_calls(self.job, self.ranks.trusted)
            self._wait_for_ranks()
            self._slot.prepare_next()
            self._outcomes.isolated = handover.isolated_times(
                self.job, self.ranks.trusted, watch=self._watch, opened=opened
            )
            self._run_group(1, key=self._key, share=1 - self.job.second_share)
            self._run_second_group()
            self._record_reference()
            self._conclude()
        except Ended as ended:
            self.findings.add(ended.findings)
            self._outcomes.ranks = ended.ranks or self._outcomes.ranks
        except SubmissionFault as fault:
            self.findings.add_fault(fault)

    def _read_source(self) -> None:
        """Read it in a process that can be ended, and note what this node lacks for it."""
        with self.job.stage(Stage.PREPARING, "reading the source"):
            reading = self._outcomes.reading = self._reading()
        self.findings.add_before_ranks(reading.findings)

    def _reading(self) -> SourceReading:
        job, seconds = self.job, self.job.settings.reading_s
        try:
            text = limited.call(READ_SOURCE, job.request.to_json(), seconds=seconds, deadlines=job.deadlines)
        except LimitExceeded as exceeded:
            raise SubmissionFault(Verdict.LIMIT_EXCEEDED, f"the source could not be read: {exceeded}") from exceeded
        reading = SourceReading.from_json(text)
        if not job.profile.is_on_gpus:
            return reading
        missing = backends.missing(job.request.source, backend=job.request.backend, node=backends.Node.this())
        small = [
            Finding(verdict=Verdict.UNSUPPORTED, message=why, size=size)
            for state in (nvml.read(job.resources.gpus) if job.profile.shares_gpu else ())
            for size in job.sizes
            if (why := too_large(job.problem, job.profile, size, state))
        ]
        return msgspec.structs.replace(reading, findings=(*reading.findings, *missing, *small))

    def _compile(self) -> None:
        """Compile what the submission will ask for, before it occupies ranks."""
        job = self.job
        if not is_needed(job.request):
            return
        with job.stage(Stage.BUILDING, "compiling"):
            built = self._slot.builder.build(
                job.request,
                workdir=self._slot.work_dir,
                sandbox=job.resources.confinement,
                deadlines=job.deadlines,
            )
            found = source_rules.check_machine_code(built.primitives, profile=job.profile)
            self._outcomes.built = replace(built, findings=(*built.findings, *found))
        self.findings.add_before_ranks(self._outcomes.built.findings)

    def _take_ranks(self) -> None:
        with self.job.stage(Stage.STARTING, "taking the ranks"), without_the_submission():
            self.ranks.take()

    def _wait_for_ranks(self) -> None:
        begun = time.monotonic()
        with self.job.stage(Stage.STARTING, "waiting for the ranks"), without_the_submission():
            self.ranks.wait_until_ready()
        self._outcomes.ranks_wait_s = time.monotonic() - begun

    def _run_group(self, number: int, *, key: bytes, share: float) -> None:
        """Give the submission to the present group and make its calls at all sizes, within a `share` of the budget."""
        job, bare, known = self.job, self._hand_over(is_first=number == 1), self._outcomes.by_size
        assert self._guard.memory is not None
        run = GroupRun(
            job=job,
            number=number,
            key=key,
            trusted=self.ranks.trusted,
            group=self.ranks.group,
            bare=bare,
            memory=self._guard.memory,
            watch=self._watch,
            draws=self._draws,
            numbers=self._numbers,
            first_call_s=job.first_call_s(self._outcomes.built),
            regimes=drawn_regimes(job),
            budget_s=job.budget_s(share),
        )
        for size in job.sizes:
            if job.mode is Mode.SWEEP:
                self._run_point(run, size)
            elif job.mode is Mode.PUBLISHED:
                self._run_as_published(run, size)
            else:
                self._run_size(run, size, known=known.get(size))

    def _open(self, run: GroupRun, size: str, *, known: SizeRun | None = None) -> SizeRun:
        with self._guard.over(run.group, size=size):
            at_size = SizeRun(run, size, known=known)
        # A record that ends early is evidence too.
        self._outcomes.sizes.append(at_size)
        return at_size

    def _run_as_published(self, run: GroupRun, size: str) -> None:
        at_size = self._open(run, size)
        with self._guard.over(run.group, size=size, caller=at_size.caller):
            self._outcomes.published = at_size.as_published()

    def _run_size(self, run: GroupRun, size: str, *, known: SizeRun | None = None) -> SizeRun:
        at_size = self._open(run, size, known=known)
        with self._guard.over(run.group, size=size, caller=at_size.caller):
            self._make_calls(at_size, is_first=run.number == 1, is_last=size == self.job.sizes[-1])
        return at_size

    def _run_point(self, run: GroupRun, name: str) -> None:
        """Measure one point of a sweep, unless a rank has no memory for it; wrong outputs end the point alone."""
        job, points, begun = self.job, self._outcomes.points, time.monotonic()
        found: Sequence[Finding] = ()
        ended: Ended | None = None
        point = sweep.refused(job, name)
        if point is None:
            try:
                point, found = sweep.measured(job, self._run_size(run, name).series.record())
            except Ended as end:
                ended, found = end, end.findings
                point = sweep.failed(job, name, found)
        points.append(msgspec.structs.replace(point, seconds=time.monotonic() - begun))
        job.progress(Stage.TIMING, f"{name}: {point.verdict.value}", len(points) / len(job.sizes), tuple(points))
        if ended is not None and (point.verdict not in sweep.ENDS_A_POINT or not run.group.is_alive):
            raise ended
        self.findings.add(found)

    def _make_calls(self, at_size: SizeRun, *, is_first: bool, is_last: bool) -> None:
        """All calls at one size; some only in the first group, after everything that is timed."""
        at_size.verify()
        if self.job.is_timed:
            self.ranks.wait_for_second()  # no process may start during a measurement
            at_size.warm_up()
            at_size.time()
        elif self.job.mode is Mode.PROFILE:
            at_size.warm_up()
        if self.job.mode is Mode.SWEEP:
            return
        if is_first and self.job.is_timed:
            at_size.loop()
        if is_first and self.job.settings.records_work:
            if not self.job.profile.shares_gpu:  # one GPU has no links between ranks
                at_size.count_links()
            if is_last:
                # Last, because a profiler may slow everything that runs after it.
                at_size.record_work()

    def _hand_over(self, *, is_first: bool) -> BareCallTimes:
        """Give the submission to the present group; raises NodeFailure where no group lives until it can read it."""
        with self.job.stage(Stage.STARTING, "importing solution.py"):
            try:
                return self.ranks.hand_over_to_present(lambda group: self._hand_over_to(group, is_first=is_first))
            except RanksLost as lost:
                if is_first:
                    raise NodeFailure(str(lost)) from lost
                raise  # a second group may have been disturbed while the first ran the submission

    def _hand_over_to(self, group: WorkerGroup, *, is_first: bool) -> BareCallTimes:
        """Measure what a submission could disturb later, then let every rank import it."""
        job = self.job
        with self._guard.over(group, size=None):
            bare = handover.bare_calls(
                job, group=group, trusted=self.ranks.trusted, guard=self._guard, is_first=is_first
            )
            if is_first:
                isolated = (reading for at_size in self._outcomes.isolated.values() for reading in at_size.gpus)
                self._outcomes.at_handover = handover.refuse_slow_gpus(job, self._watch, isolated=tuple(isolated))
            group.sandbox.hand_over(job.request.source, built=self._outcomes.built)
            group.import_submission()
        return bare

    def _run_second_group(self) -> None:
        """Run part of a ranked series again in a new group with other secrets. Its times count like the first's."""
        if not self.ranks.has_second:
            return
        self._see_ranks()
        self.ranks.change_group()
        key = hashlib.sha256(self._key + b"second worker group").digest()
        try:
            self._run_group(2, key=key, share=self.job.second_share)
        except Ended as ended:
            raise Ended((*ended.findings, evidence.disagreement(ended.findings)), ranks=ended.ranks) from ended

    def _record_reference(self) -> None:
        """Record a call of the reference for the timeline; no verdict uses it, so a failure fails nothing.

        It comes after everything that is timed, which another process on the GPUs could slow.
        """
        job, outcomes = self.job, self._outcomes
        if outcomes.timeline is None or job.mode is Mode.CHECK:
            return
        size = outcomes.timeline.size
        with job.stage(Stage.COMPARING, f"{size}: recording the reference"):
            try:
                outcomes.reference = self._slot.references.take(
                    self.ranks.trusted, problem=job.request.problem, size=size, dtype=job.dtype
                )
            except EvaluatorError as error:
                logger.warning("evaluation %s: the reference was not recorded: %s", job.request.evaluation_id, error)
                self.has_stuck_ranks = True

    def _conclude(self) -> None:
        """All evidence is complete: compute the timing and note the pass."""
        job, outcomes = self.job, self._outcomes
        profile = job.profile
        if job.is_timed and job.mode.is_scored:
            with job.stage(Stage.COMPARING, "comparing with the reference"):
                outcomes.timing, against = timing.conclude(
                    outcomes.records, profile.timing_rules(), without=job.settings.without
                )
            self.findings.add(against)
        self._see_ranks()
        if job.mode is Mode.SWEEP:
            self.findings.add(sweep.concluded(outcomes.points, known=self.findings.all))
            return
        if job.mode is Mode.PUBLISHED:
            self.findings.add([evidence.passed_as_published(outcomes.results, outcomes.published)])
            return
        self.findings.add([evidence.passed(profile.world_size, results=outcomes.results, records=outcomes.records)])

    def _see_ranks(self) -> None:
        self._outcomes.ranks = rank_states(self.ranks.group.observe_finished())

    # ---- what the judge of the slot asks ----------------------------------------------------------------------

    def close(self) -> None:
        """End the worker groups, and release what was held; raises EvaluatorError where a part of one is left."""
        self._watch.close()
        self.ranks.close()

    def report(self, *, started_at: str, finished_at: str) -> EvaluationReport:
        """The report of everything so far."""
        self.job.progress(Stage.REPORTING, "writing the report", None)
        return report.written(
            self.job,
            self._outcomes,
            self.findings,
            commitment=hashlib.sha256(self._key).hexdigest(),
            canaries=tuple(self._slot.trusted.canaries),
            driver_faults=self._slot.health.driver_faults,
            started_at=started_at,
            finished_at=finished_at,
        )
