"""The judge of one slot: a request in, a report out."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Self

from evaluator.contract import EvaluationReport, EvaluationRequest, SandboxLevel
from evaluator.errors import EvaluatorError, NodeTrouble
from evaluator.hardware import profiles
from evaluator.host.building.builder import Builder
from evaluator.host.clock.call_clock import GateClock
from evaluator.host.evaluation.evaluation import Evaluation
from evaluator.host.evaluation.report import Circumstances
from evaluator.host.hangs.incidents import EvaluationCancelled
from evaluator.host.job import Job, ReportProgress, no_progress
from evaluator.host.machine import nvml
from evaluator.host.machine.gpus import gpus_for
from evaluator.host.machine.health import Health
from evaluator.host.measure.references import RecordedReferences
from evaluator.host.other_world_size import OtherWorldSize
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.process.helper_process import HelperProcess
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.kept_ranks import KeptRanks
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.waiting_groups import WaitingGroups
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.host.sandbox import doctor
from evaluator.host.sandbox.bubblewrap import Probe
from evaluator.host.sandbox.cpu_sets import shares_for
from evaluator.host.sandbox.host_users import SlotUser
from evaluator.host.sandbox.work_directory import WorkDirectory
from evaluator.host.settings import JudgeSettings
from evaluator.host.slot_proofs import SlotProofs

logger = logging.getLogger(__name__)

_ROOM_BYTES = 4 * 1024**3
"""Free memory of every GPU with which the next ranks start while others end. Contexts and communicators of two groups
take up to 2 GB."""


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
        self._other = OtherWorldSize(settings, start=Judge)
        self._work_directory = WorkDirectory(settings.work_dir)
        self._work_dir = self._work_directory.path
        self._user = SlotUser.take(settings.users)
        self._spawner = Spawner()
        self._helper = HelperProcess(self._spawner)
        self._builder = Builder(settings, helper=self._helper)
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
                confinement=doctor.resolve_in(self._work_dir, profile=self.profile, settings=settings, user=self._user),
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
            self._proofs = SlotProofs(self._health, self._trusted)
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
        return self._proofs.quarantine

    @property
    def error_log(self) -> str:
        """Errors of the judge in the last evaluation, for the operator only; empty where there were none."""
        return self._proofs.error_log

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
        deadlines: Deadlines | None = None,
    ) -> EvaluationReport:
        """Judge one submission.

        Args:
            request: what to judge; its profile must be this slot's.
            progress: called at every stage with stage, detail, and fraction or None.
            cancelled: polled; once true, the evaluation ends and cleans up.
            deadlines: when it should be over; None for the slot's `evaluation_s` from now.

        Returns:
            The report. An error of the judge is a verdict, never an exception. It is JUDGE_FAILURE where the node
            proved to be faulty, and JUDGE_ERROR where a submission was being handled and the node works. It is
            UNSUPPORTED where the judge lacks memory only beside the submission. `error_log` then holds the error.

        Raises:
            EvaluationCancelled: `cancelled()` became true.
        """
        with self._turn:
            deadlines = deadlines or Deadlines(time.monotonic() + self.settings.evaluation_s)
            report = self._evaluate(request, progress=progress, cancelled=cancelled, deadlines=deadlines)
            if not self._other.applies_to(request, report):
                return report
            report = self._other.check(request, report, progress=progress, cancelled=cancelled, deadlines=deadlines)
            self._proofs.keep_log(self._other.error_log)
            return report

    def _evaluate(
        self,
        request: EvaluationRequest,
        *,
        progress: ReportProgress,
        cancelled: Callable[[], bool],
        deadlines: Deadlines,
    ) -> EvaluationReport:
        """Judge on the ranks of this slot's profile."""
        with self._health.watching(), self._limited(deadlines):
            job = Job(request=request, plan=self._plan, deadlines=deadlines, cancelled=cancelled, progress=progress)
            evaluation = Evaluation(
                job,
                builder=self._builder,
                helper=self._helper,
                references=self._references,
                work_dir=self._work_dir,
            )
            started_at = _now()
            self._trusted.forget_canaries()
            self._proofs.begin()
            try:
                self._proofs.check_quarantine()
                evaluation.run(take_trusted=self._trusted.take, waiting=self._waiting, prepare_next=self._prepare_next)
            except EvaluationCancelled:
                raise
            except NodeTrouble as error:
                self._proofs.note(evaluation, error, is_nodes=True)
                self._proofs.drop_trusted(evaluation)
            except Exception as error:  # noqa: BLE001 - every error of the judge becomes a verdict here
                self._proofs.note(evaluation, error, is_nodes=not evaluation.is_in_play)
                self._proofs.drop_trusted(evaluation)
            finally:
                self._end(evaluation, deadlines)
            return evaluation.report(
                Circumstances(
                    started_at=started_at,
                    finished_at=_now(),
                    canaries=tuple(self._trusted.canaries),
                    driver_faults=self._health.driver_faults,
                )
            )

    def wait_until_warm(self) -> None:
        """Return once the worker groups that wait for an evaluation have started; a group that fails is ended."""
        self._waiting.wait_until_ready()

    def close(self) -> None:
        """End the trusted ranks and any waiting worker group, and remove this judge's files."""
        self._other.close()
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

        All ranks of the present one are ready, and none of them has read the submission.
        Also new trusted ranks, where the present ones serve their last evaluation.
        """
        if not self._waiting.are_starting:
            self._health.note_usual()
        if self.settings.warm and self._plan.shares.sandbox:
            self._keep_waiting(self._waiting.prepare)
            if self._trusted.are_spent:
                self._keep_waiting(self._trusted.prepare)

    def _keep_waiting(self, step: Callable[[], object]) -> None:
        """A failure here does not change the present verdict; the next evaluation raises it if it fails again."""
        try:
            step()
        except EvaluatorError as error:
            logger.warning("ranks for the next evaluation could not be started: %s", error)

    @contextlib.contextmanager
    def _limited(self, deadlines: Deadlines) -> Iterator[None]:
        """Have trusted ranks answer in time, whatever an evaluation does; afterwards they may take their time again."""
        self._trusted.limit(deadlines.answer)
        try:
            yield
        finally:
            self._trusted.limit(None)

    def _end(self, evaluation: Evaluation, deadlines: Deadlines) -> None:
        """Clean up after an evaluation; meanwhile, or afterwards, let the next one's ranks start."""
        self._trusted.limit(deadlines.ending)
        evaluation.stop()
        if evaluation.findings.ended_well and not self.quarantine and self._have_room():
            self._waiting.start_prepared()
        try:
            evaluation.close()
        except (EvaluatorError, OSError) as error:
            self._proofs.quarantine_for(evaluation, error)
        if evaluation.findings.awaits_proof and not self.quarantine:
            self._proofs.rehearse(evaluation, deadlines)
        if evaluation.has_held_ranks and not self.quarantine:
            self._proofs.prove_clean(evaluation, deadlines)
        if (evaluation.has_stuck_ranks or self._trusted.are_spent) and not self.quarantine:
            self._proofs.drop_trusted(evaluation)
            self._keep_waiting(self._trusted.start)
        if self.settings.warm and not self.quarantine:
            self._keep_waiting(self._waiting.refill)

    def _have_room(self) -> bool:
        """Whether the next ranks fit into the GPUs beside those that are ending, which allocate nothing any more."""
        gpus = self._plan.gpus
        return self._health.knows_usual and nvml.have_room(nvml.read(gpus), gpus=gpus, least_bytes=_ROOM_BYTES)

    def _own_processes(self) -> list[int]:
        """Every process of the judge between evaluations: trusted ranks, and worker groups without a submission."""
        return [*self._waiting.processes, *self._trusted.processes]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
