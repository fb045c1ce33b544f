"""The judge of one slot: a request in, a report out."""

import contextlib
import dataclasses
import logging
import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import msgspec

from evaluator.contract import EvaluationReport, EvaluationRequest, Mode, SandboxLevel, Stage, Verdict
from evaluator.errors import EvaluatorError, NodeTrouble
from evaluator.hardware import profiles
from evaluator.host.building.builder import Builder
from evaluator.host.clock.call_clock import GateClock
from evaluator.host.evaluation.evaluation import Evaluation
from evaluator.host.evaluation.report import Circumstances
from evaluator.host.hangs.incidents import EvaluationCancelled
from evaluator.host.machine.gpus import gpus_for
from evaluator.host.machine.health import Health
from evaluator.host.measure.references import RecordedReferences
from evaluator.host.process.helper_process import HelperProcess
from evaluator.host.process.hold import Hold
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.kept_ranks import KeptRanks
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.waiting_groups import WaitingGroups
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.host.sandbox import bubblewrap, doctor
from evaluator.host.sandbox.bubblewrap import Confinement, Probe
from evaluator.host.sandbox.cpu_sets import shares_for
from evaluator.host.sandbox.host_users import SlotUser
from evaluator.host.sandbox.work_directory import WorkDirectory
from evaluator.host.settings import JudgeSettings
from evaluator.judging import world_sizes
from problems import registry

logger = logging.getLogger(__name__)

_ERROR_LOG_CHARACTERS = 64 * 1024

ReportProgress = Callable[[Stage, str, float | None], None]


def no_progress(_stage: Stage, _detail: str, _fraction: float | None) -> None:
    """Report progress to nobody."""


def never() -> bool:
    """Never cancelled."""
    return False


class Judge:
    """Judges for one slot, one evaluation at a time; keeps trusted ranks and the next worker group warm.

    A context manager; `close` ends every process that it started.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        """Examine what this machine can enforce, and start trusted ranks and a worker group in the background.

        Raises:
            EvaluatorError: the machine cannot judge for the profile under these settings.
            UnknownProfile: the settings name a profile that does not exist.
        """
        self.settings = settings
        self.profile = profiles.get(settings.profile)
        self._turn = threading.Lock()
        self._unclean = ""
        self._other: Judge | None = None
        self._errors: list[str] = []
        self._work_directory = WorkDirectory(settings.work_dir)
        self._work_dir = self._work_directory.path
        self._user = SlotUser.take(settings.users)
        self._builder = Builder(settings)
        self._spawner = Spawner()
        self._helper = HelperProcess(self._spawner)
        self._references = RecordedReferences()
        self._clock: GateClock | None = None
        self._trusted = KeptRanks(self._start_trusted)
        self._waiting = WaitingGroups(self._start_group, wanted=self._wanted_groups(), age_s=settings.group_age_s)
        try:
            shares = shares_for(self.profile)
            if self.profile.device == "cuda":
                self._clock = GateClock(spawner=self._spawner, cores=shares.gatekeeper)
            self._plan = SlotPlan(
                profile=self.profile,
                settings=settings,
                confinement=self._confine(),
                shares=shares,
                gpus=gpus_for(self.profile),
                clock=self._clock,
            )
            self._health = Health(
                user=self._plan.confinement.user,
                gpus=self._plan.gpus,
                work_dir=self._work_dir,
                ours=self._own_processes,
                kept=lambda: self._waiting.folders,
                seconds=settings.clean_s,
            )
            self._trusted.start()
            self._waiting.refill()
        except BaseException:
            self.close()
            raise

    @property
    def sandbox(self) -> SandboxLevel:
        """How well submissions are confined here."""
        return self._plan.confinement.level

    @property
    def quarantine(self) -> str:
        """Why this slot must not take more work; empty while it is clean."""
        return self._unclean or self._trusted.wrong

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The probes of this machine's confinement."""
        return self._plan.confinement.probes

    def evaluate(
        self,
        request: EvaluationRequest,
        *,
        progress: ReportProgress = no_progress,
        cancelled: Callable[[], bool] = never,
        hold: Hold | None = None,
    ) -> EvaluationReport:
        """Judge one submission.

        Args:
            request: what to judge; its profile must be this slot's.
            progress: called at every stage with stage, detail, and fraction or None.
            cancelled: polled; once true, the evaluation ends and cleans up.
            hold: when it should be over; None for the slot's `evaluation_s` from now.

        Returns:
            The report. An error of the judge is a verdict, never an exception. It is JUDGE_FAILURE where the node
            proved to be faulty, and JUDGE_ERROR where a submission was being handled and the node works. It is
            UNSUPPORTED where the judge lacks memory only beside the submission. `error_log` then holds the error.

        Raises:
            EvaluationCancelled: `cancelled()` became true.
        """
        with self._turn:
            held = hold or Hold(time.monotonic() + self.settings.evaluation_s)
            report = self._evaluate(request, progress=progress, cancelled=cancelled, hold=held)
            if not self._is_to_be_seen_elsewhere(request, report):
                return report
            return self._seen_elsewhere(request, report, progress=progress, cancelled=cancelled, hold=held)

    def _evaluate(
        self, request: EvaluationRequest, *, progress: ReportProgress, cancelled: Callable[[], bool], hold: Hold
    ) -> EvaluationReport:
        """Judge on the ranks of this slot's profile."""
        with self._health.watching(), self._limited(hold):
            evaluation = Evaluation(
                request,
                plan=self._plan,
                builder=self._builder,
                helper=self._helper,
                references=self._references,
                work_dir=self._work_dir,
                hold=hold,
                progress=progress,
                cancelled=cancelled,
            )
            started_at = _now()
            self._trusted.forget_canaries()
            self._errors = []
            try:
                self._refuse_in_quarantine()
                evaluation.run(take_trusted=self._trusted.take, waiting=self._waiting, prepare_next=self._prepare_next)
            except EvaluationCancelled:
                raise
            except NodeTrouble as error:
                self._note(evaluation, error, is_nodes=True)
                self._drop_trusted(evaluation)
            except Exception as error:  # noqa: BLE001 - every error of the judge becomes a verdict here
                self._note(evaluation, error, is_nodes=not evaluation.is_in_play)
                self._drop_trusted(evaluation)
            finally:
                self._end(evaluation, hold)
            return evaluation.report(
                Circumstances(
                    started_at=started_at,
                    finished_at=_now(),
                    canaries=tuple(self._trusted.canaries),
                    driver_faults=self._health.driver_faults,
                )
            )

    @property
    def error_log(self) -> str:
        """Errors of the judge in the last evaluation, for the operator only; empty where there were none."""
        return "\n\n".join(self._errors)[:_ERROR_LOG_CHARACTERS]

    def _is_to_be_seen_elsewhere(self, request: EvaluationRequest, report: EvaluationReport) -> bool:
        """Whether what passed this check is to be checked on the machine's other number of ranks."""
        name = self.profile.other_world_size if self.settings.other_world_size else ""
        if not name or request.mode is not Mode.CHECK or request.regime or report.verdict is not Verdict.PASSED:
            return False
        other = profiles.get(name)
        sizes = request.sizes or other.sizes[request.mode]
        return registry.get(request.problem).refuses(other.world_size, sizes) is None

    def _seen_elsewhere(
        self,
        request: EvaluationRequest,
        report: EvaluationReport,
        *,
        progress: ReportProgress,
        cancelled: Callable[[], bool],
        hold: Hold,
    ) -> EvaluationReport:
        """`report`, which passed, joined with the result on another number of ranks, from another judge."""
        name = self.profile.other_world_size
        ranks = profiles.get(name).world_size
        if time.monotonic() >= hold.deadline:
            return world_sizes.unseen(report, world_size=ranks, why="the time of the evaluation was used up")
        if self._other is None or self._other.quarantine:
            self._drop_other()
            settings = dataclasses.replace(self.settings, profile=name, warm=False, other_world_size=False)
            try:
                self._other = Judge(settings)
            except EvaluatorError as error:
                return world_sizes.unseen(report, world_size=ranks, why=str(error))
        second = self._other.evaluate(
            msgspec.structs.replace(request, profile=name),
            progress=lambda stage, detail, fraction: progress(stage, f"on {ranks} ranks: {detail}", fraction),
            cancelled=cancelled,
            hold=hold,
        )
        if self._other.error_log:
            self._errors.append(self._other.error_log)
        return world_sizes.combined(report, second)

    def _drop_other(self) -> None:
        if self._other is not None:
            self._other.close()
            self._other = None

    def wait_until_warm(self) -> None:
        """Return once the worker groups that wait for an evaluation have started; a group that fails is ended."""
        self._waiting.wait_until_ready()

    def close(self) -> None:
        """End the trusted ranks and any waiting worker group, and remove this judge's files."""
        self._drop_other()
        self._waiting.close()
        self._trusted.close()
        if self._clock is not None:
            self._clock.close()
        self._helper.close()
        self._spawner.close()
        self._work_directory.close()
        if self._user is not None:
            self._user.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what is kept between evaluations ---------------------------------------------------------------------

    def _confine(self) -> Confinement:
        private = Path(tempfile.mkdtemp(prefix="survey-", dir=self._work_dir))
        bubblewrap.write_private(private)
        try:
            user = self._user.number if self._user is not None else None
            return doctor.resolve(self.profile, self.settings, private=private, user=user)
        finally:
            shutil.rmtree(private, ignore_errors=True)

    def _start_trusted(self) -> TrustedRanks:
        return TrustedRanks(
            self.profile, self.settings, spawner=self._spawner, work_dir=self._work_dir, clock=self._clock
        )

    def _start_group(self) -> WorkerGroup:
        return WorkerGroup(self._plan, spawner=self._spawner, work_dir=self._work_dir)

    def _wanted_groups(self) -> int:
        """How many groups wait for the next evaluation: two where a ranked series uses two."""
        share = self.settings.second_group_share
        is_second = self.profile.timing_policy.second_group_share if share is None else share
        return 2 if is_second else 1

    def _prepare_next(self) -> None:
        """Let the next evaluation's groups import, on processors that the present one does not use.

        On GPUs also the trusted ranks that replace those which a recorder has worn.
        """
        if self.settings.warm and self._plan.shares.sandbox:
            self._keep_waiting(self._waiting.prepare)
            if self.profile.device == "cuda":
                self._keep_waiting(self._trusted.prepare)

    def _keep_waiting(self, step: Callable[[], object]) -> None:
        """A failure here does not change the present verdict; the next evaluation raises it if it fails again."""
        try:
            step()
        except EvaluatorError as error:
            logger.warning("ranks for the next evaluation could not be started: %s", error)

    @contextlib.contextmanager
    def _limited(self, hold: Hold) -> Iterator[None]:
        """Have trusted ranks answer in time, whatever an evaluation does; afterwards they may take their time again."""
        self._trusted.limit(hold.answer)
        try:
            yield
        finally:
            self._trusted.limit(None)

    def _drop_trusted(self, evaluation: Evaluation) -> None:
        """End the trusted ranks. If they stay, the slot is not clean."""
        try:
            self._trusted.drop()
        except EvaluatorError as error:
            self._unclean = str(error)
            self._note(evaluation, error, is_nodes=False)

    def _end(self, evaluation: Evaluation, hold: Hold) -> None:
        """Clean up after an evaluation, then let the next one's ranks start, which uses the GPUs."""
        self._trusted.limit(hold.ending)
        try:
            evaluation.close()
        except (EvaluatorError, OSError) as error:
            self._unclean = str(error)
            self._note(evaluation, error, is_nodes=False)
        if evaluation.findings.awaits_proof and not self.quarantine:
            self._rehearse(evaluation, hold)
        if evaluation.has_held_ranks and not self.quarantine:
            self._prove_clean(evaluation, hold)
        if evaluation.has_worn_ranks and not self.quarantine:
            self._drop_trusted(evaluation)
            self._keep_waiting(self._trusted.start)
        if self.settings.warm and not self.quarantine:
            self._keep_waiting(self._waiting.refill)

    def _own_processes(self) -> list[int]:
        """Every process of the judge between evaluations: trusted ranks, and worker groups without a submission."""
        return [*self._waiting.processes, *self._trusted.processes]

    def _refuse_in_quarantine(self) -> None:
        if self.quarantine:
            raise EvaluatorError(f"this slot is not clean and takes no more work: {self.quarantine}")

    def _prove_clean(self, evaluation: Evaluation, hold: Hold) -> None:
        """After an evaluation that used ranks: check that nothing of it is left, and that the devices work.

        Leftovers do not prove that the node was faulty before; the driver and the canary do.
        """
        self._unclean = "; ".join(self._health.leftovers(within=hold.ending))
        if self._unclean:
            self._note(evaluation, EvaluatorError(self._unclean), is_nodes=self._health.is_driver_ill)
            self._drop_trusted(evaluation)
            return
        try:
            self._trusted.prove(is_full=evaluation.findings.ended_badly)
        except EvaluatorError as error:
            self._note(evaluation, error, is_nodes=not hold.is_over)
            self._drop_trusted(evaluation)

    def _rehearse(self, evaluation: Evaluation, hold: Hold) -> None:
        """After an error of the judge: can this node judge the problem without the submission? If not, it is faulty.

        New trusted ranks run the canary and a call of the reference at every size. A lack of resources in that, such as
        memory, is never attributed to the submission. Where the time is used up, nothing is proved.
        """
        self._drop_trusted(evaluation)
        if self.quarantine or hold.is_over:
            return
        try:
            evaluation.rehearse(self._trusted.take())
        except Exception as error:  # noqa: BLE001 - no submission is left that could cause it
            self._note(evaluation, error, is_nodes=not hold.is_over)
            self._drop_trusted(evaluation)

    def _note(self, evaluation: Evaluation, error: Exception, *, is_nodes: bool) -> None:
        """Keep an error of the judge for the operator, and note it in the evaluation."""
        self._errors.append("".join(traceback.format_exception(error)))
        logger.error("evaluation %s: our error", evaluation.evaluation_id, exc_info=error)
        evaluation.findings.add_error(error, is_nodes=is_nodes)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
