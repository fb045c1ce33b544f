"""The judge of one slot: a request in, a report out."""

import contextlib
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from evaluator.contract import Canary, EvaluationReport, EvaluationRequest, SandboxLevel, Stage
from evaluator.errors import EvaluatorError
from evaluator.hardware import profiles
from evaluator.host.building.builder import Builder
from evaluator.host.evaluation import Evaluation
from evaluator.host.hangs.incidents import EvaluationCancelled
from evaluator.host.machine.gpus import gpus_for
from evaluator.host.machine.health import Health
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.oracle_group import OracleGroup
from evaluator.host.ranks.slot_plan import SlotPlan
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.host.sandbox import bubblewrap, doctor
from evaluator.host.sandbox.bubblewrap import Confinement, Probe
from evaluator.host.sandbox.cpu_sets import shares_for
from evaluator.host.sandbox.host_users import SlotUser
from evaluator.host.sandbox.workplace import Workplace
from evaluator.host.settings import JudgeSettings

logger = logging.getLogger(__name__)

ReportProgress = Callable[[Stage, str, float | None], None]

_EVALUATIONS_PER_ORACLE = 50


def no_progress(_stage: Stage, _detail: str, _fraction: float | None) -> None:
    """Tell nobody."""


def never() -> bool:
    """Nobody cancels."""
    return False


class Judge:
    """Judges for one slot, one evaluation at a time; keeps oracle ranks and the next gang warm.

    A context manager; `close` ends every process it started.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        """Find out what this machine can enforce, and start oracle ranks and a gang in the background.

        Raises:
            EvaluatorError: the machine cannot judge for the profile under these settings.
            UnknownProfile: the settings name a profile that there is not.
        """
        self.settings = settings
        self.profile = profiles.get(settings.profile)
        self._turn = threading.Lock()
        self._oracle: OracleGroup | None = None
        self._oracle_uses = 0
        self._waiting: list[WorkerGroup] = []
        self._quarantine = ""
        self._canaries: list[Canary] = []
        self._workplace = Workplace(settings.work_dir)
        self._work_dir = self._workplace.path
        self._user = SlotUser.take(settings.users)
        self._builder = Builder(settings)
        self._spawner = Spawner()
        try:
            self._plan = SlotPlan(
                profile=self.profile,
                settings=settings,
                confinement=self._confine(),
                shares=shares_for(self.profile),
                gpus=gpus_for(self.profile),
            )
            self._health = Health(
                user=self._plan.confinement.user,
                gpus=self._plan.gpus,
                work_dir=self._work_dir,
                ours=self._own_processes,
                kept=lambda: {gang.folder for gang in self._waiting},
                seconds=settings.clean_s,
            )
            self._start_oracle()
            self._refill()
        except BaseException:
            self.close()
            raise

    @property
    def sandbox(self) -> SandboxLevel:
        """How well submissions are confined here."""
        return self._plan.confinement.level

    @property
    def quarantine(self) -> str:
        """Why this slot must not take further work; empty while it is clean."""
        return self._quarantine

    @property
    def probes(self) -> tuple[Probe, ...]:
        """What was found out about this machine's confinement."""
        return self._plan.confinement.probes

    def evaluate(
        self,
        request: EvaluationRequest,
        *,
        progress: ReportProgress = no_progress,
        cancelled: Callable[[], bool] = never,
    ) -> EvaluationReport:
        """Judge one submission.

        Args:
            request: what to judge; its profile must be this slot's.
            progress: told of every stage: stage, words, fraction or None.
            cancelled: asked often; once true, the evaluation ends and cleans up.

        Returns:
            The report; a failure of ours is the verdict JUDGE_FAILURE, never an exception.

        Raises:
            EvaluationCancelled: `cancelled()` became true.
        """
        with self._turn, self._health.watching():
            evaluation = Evaluation(
                request,
                plan=self._plan,
                builder=self._builder,
                work_dir=self._work_dir,
                progress=progress,
                cancelled=cancelled,
            )
            started_at = _now()
            self._canaries = self._canaries[-1:]
            try:
                self._refuse_in_quarantine()
                evaluation.run(take_oracle=self._take_oracle, take_gang=self._take_gang, settle=self.wait_until_warm)
            except EvaluationCancelled:
                raise
            except EvaluatorError as error:
                logger.warning("evaluation %s: our failure: %s", request.evaluation_id, error)
                evaluation.fail(error)
                self._drop_oracle()
            finally:
                self._end(evaluation)
            return evaluation.report(
                started_at=started_at,
                finished_at=_now(),
                canaries=tuple(self._canaries),
                driver_faults=self._health.driver_faults,
            )

    def wait_until_warm(self) -> None:
        """Return once the gangs that wait for an evaluation have started; one that does not is ended."""
        for gang in list(self._waiting):
            try:
                gang.wait_until_ready(cancelled=never)
            except EvaluatorError as error:
                logger.warning("a gang that was to wait for its submission is given up: %s", error)
                self._waiting.remove(gang)
                gang.close()

    def close(self) -> None:
        """End the oracle ranks and any waiting gang, and remove what this judge kept on disk."""
        for held in (*self._waiting, self._oracle):
            if held is not None:
                with contextlib.suppress(EvaluatorError):
                    held.close()
        self._waiting, self._oracle = [], None
        self._spawner.close()
        self._workplace.close()
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

    def _start_oracle(self) -> OracleGroup:
        self._oracle = OracleGroup(self.profile, self.settings, spawner=self._spawner, work_dir=self._work_dir)
        self._oracle_uses = 0
        return self._oracle

    def _drop_oracle(self) -> None:
        oracle, self._oracle = self._oracle, None
        if oracle is not None:
            oracle.close()

    def _take_oracle(self) -> OracleGroup:
        """The oracle ranks, ready; new ones where the old have ended or served long enough."""
        oracle = self._oracle
        if oracle is None or not oracle.is_alive or self._oracle_uses >= _EVALUATIONS_PER_ORACLE:
            self._drop_oracle()
            oracle = self._start_oracle()
        oracle.wait_until_ready()
        if not self._oracle_uses:
            self._try_out(oracle, is_full=True)
        self._oracle_uses += 1
        return oracle

    def _try_out(self, oracle: OracleGroup, *, is_full: bool) -> None:
        """Have the oracle ranks prove that their devices still work; raises EvaluatorError, and puts in quarantine."""
        wrong = oracle.try_out(is_full=is_full)
        self._canaries.append(Canary(at=_now(), is_full=is_full, failures=wrong))
        if wrong:
            self._quarantine = "; ".join(wrong)
            raise EvaluatorError(f"this node no longer calculates right: {self._quarantine}")

    def _start_gang(self) -> WorkerGroup:
        return WorkerGroup(self._plan, spawner=self._spawner, work_dir=self._work_dir)

    def _take_gang(self) -> WorkerGroup:
        """A waiting gang that is young and alive, else a new one."""
        while self._waiting:
            gang = self._waiting.pop(0)
            if gang.is_alive and time.monotonic() - gang.started_at < self.settings.gang_age_s:
                return gang
            gang.close()
        return self._start_gang()

    def _refill(self) -> None:
        """Start what waits for the next evaluation: a gang, and a second one where a ranked series takes two."""
        share = self.settings.second_gang_share
        is_second = self.profile.vigilance.second_gang_share if share is None else share
        while len(self._waiting) < (2 if is_second else 1):
            self._waiting.append(self._start_gang())

    def _end(self, evaluation: Evaluation) -> None:
        """Clean up after an evaluation, and start further gangs only then: a start would disturb a measurement."""
        try:
            evaluation.close()
        except EvaluatorError as error:
            self._quarantine = str(error)
            evaluation.fail(error)
        if evaluation.has_held_ranks and not self._quarantine:
            self._prove_clean(evaluation)
        if self.settings.warm and not self._quarantine:
            try:
                self._refill()
            except EvaluatorError as error:
                # This evaluation has its verdict; the next one starts its own gang, and is told if that fails too.
                logger.warning("no gang waits for the next evaluation: %s", error)

    def _own_processes(self) -> list[int]:
        """Every process of ours that lives between evaluations: oracle ranks, and gangs that saw no submission."""
        held: list[WorkerGroup | OracleGroup] = list(self._waiting)
        if self._oracle is not None:
            held.append(self._oracle)
        return [pid for each in held for pid in each.processes]

    def _refuse_in_quarantine(self) -> None:
        if self._quarantine:
            raise EvaluatorError(f"this slot is not clean and takes no further work: {self._quarantine}")

    def _prove_clean(self, evaluation: Evaluation) -> None:
        """After an evaluation that held ranks: nothing of it is left, and the devices still work."""
        try:
            self._quarantine = "; ".join(self._health.leftovers())
            self._refuse_in_quarantine()
            if self._oracle is not None and self._oracle.is_alive:
                self._try_out(self._oracle, is_full=evaluation.ended_badly)
        except EvaluatorError as error:
            logger.error("evaluation %s: %s", evaluation.evaluation_id, error)  # noqa: TRY400 - it says all
            evaluation.fail(error)
            self._drop_oracle()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
