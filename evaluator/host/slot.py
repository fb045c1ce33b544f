"""What one slot of a node keeps between evaluations: its folder and user, and the ranks that wait for the next one."""

import contextlib
import logging
from collections.abc import Callable, Iterator

from evaluator.errors import EvaluatorError
from evaluator.hardware import profiles
from evaluator.host.building.builder import Builder
from evaluator.host.clock.call_clock import GateClock
from evaluator.host.machine import gpus, nvml
from evaluator.host.machine.health import Health
from evaluator.host.measure.references import RecordedReferences
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.process.spawner import Spawner
from evaluator.host.ranks.pools import KeptRanks, WaitingGroups
from evaluator.host.ranks.trusted_ranks import TrustedRanks
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.host.resources import Resources
from evaluator.host.sandbox import doctor
from evaluator.host.sandbox.cpu_sets import shares_for
from evaluator.host.sandbox.slot_claims import SlotUser, WorkDirectory
from evaluator.host.settings import JudgeSettings

logger = logging.getLogger(__name__)

_ROOM_BYTES = 4 * 1024**3
"""Free memory of every GPU with which the next ranks start while others end. Contexts and communicators of two groups
take up to 2 GB."""


class Slot:
    """The parts of one slot; `close` ends every process that it started.

    Attributes:
        settings: its limits and choices.
        resources: how it runs submissions.
        work_dir: its private folder.
        spawner: starts its processes.
        builder: compiles submissions.
        references: those that were recorded.
        trusted: the trusted ranks.
        waiting: worker groups without a submission.
        health: looks for leftovers and for faults of the driver.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        """Examine what this machine can enforce, and start trusted ranks and a worker group in the background.

        Raises:
            EvaluatorError: the machine cannot judge for the profile under these settings.
            UnknownProfile: the settings name a profile that does not exist.
        """
        self.settings = settings
        self.profile = profiles.get(settings.profile)
        gpus.refuse_small(self.profile)
        self.builder = Builder(settings)
        self.references = RecordedReferences()
        with contextlib.ExitStack() as parts:
            user = SlotUser.take(settings.users)
            if user is not None:
                parts.callback(user.close)
            work_directory = WorkDirectory(settings.work_dir)
            parts.callback(work_directory.close)
            self.work_dir = work_directory.path
            self.spawner = Spawner()
            parts.callback(self.spawner.close)
            shares = shares_for(self.profile)
            clock = None
            if self.profile.device == "cuda":
                clock = parts.enter_context(GateClock(spawner=self.spawner, cores=shares.gatekeeper))
            self.resources = Resources(
                profile=self.profile,
                settings=settings,
                confinement=doctor.resolve_in(self.work_dir, profile=self.profile, settings=settings, user=user),
                shares=shares,
                gpus=gpus.gpus_for(self.profile),
                clock=clock,
            )
            self.trusted = KeptRanks(
                lambda: TrustedRanks(self.profile, settings, spawner=self.spawner, work_dir=self.work_dir, clock=clock)
            )
            parts.callback(self.trusted.close)
            most = gpus.spare_groups(self.profile) if settings.warm else 0
            self._starts_ahead = most if settings.starts_ahead is None else min(most, settings.starts_ahead)
            wanted = 2 if self.resources.second_group_share else max(1, self._starts_ahead)
            self.waiting = WaitingGroups(self.start_group, wanted=wanted, age_s=settings.group_age_s)
            parts.callback(self.waiting.close)
            self.health = Health(
                user=self.resources.confinement.user,
                gpus=self.resources.gpus,
                work_dir=self.work_dir,
                # Between evaluations: trusted ranks, and worker groups without a submission.
                ours=lambda: [*self.waiting.processes, *self.trusted.processes],
                kept=lambda: self.waiting.folders,
                seconds=settings.clean_s,
                shares_gpu=self.profile.shares_gpu,
            )
            self.trusted.start()
            self.waiting.refill()
            self._parts = parts.pop_all()

    def close(self) -> None:
        """End the trusted ranks and any waiting worker group, and remove this slot's files."""
        self._parts.close()

    def start_group(self) -> WorkerGroup:
        """Start a worker group in the background; raises EvaluatorError."""
        return WorkerGroup(self.resources, spawner=self.spawner, work_dir=self.work_dir)

    @contextlib.contextmanager
    def held(self, deadlines: Deadlines) -> Iterator[None]:
        """Listen for faults of the driver, and have trusted ranks answer in time, whatever an evaluation does inside.

        Afterwards they may take their time again.
        """
        with self.health.watching():
            self.trusted.limit(deadlines.answer)
            try:
                yield
            finally:
                self.trusted.limit(None)

    def prepare_next(self) -> None:
        """Let the next evaluation's groups import, on processors that the present one does not use.

        All ranks of the present one are ready, and none of them has read the submission.
        Also new trusted ranks, where the present ones serve their last evaluation. Where nothing is timed, the groups'
        ranks start, too: nobody measures what they disturb.
        """
        if not self.waiting.are_starting:
            self.health.note_usual()
        if self.settings.warm and (self.resources.shares.sandbox or self._starts_ahead):
            has_room = self._starts_ahead and self._have_room()
            self._keep_waiting(self.waiting.refill if has_room else self.waiting.prepare)
            if self.trusted.are_spent:
                self._keep_waiting(self.trusted.prepare)

    def start_prepared(self) -> None:
        """Let groups that have imported start their ranks, where these fit in beside those that are ending.

        Those allocate nothing any more.
        """
        if self.health.knows_usual and self._have_room():
            self.waiting.start_prepared()

    def _have_room(self) -> bool:
        """Whether every GPU has memory for another worker group beside what runs."""
        own, least_bytes = self.resources.gpus, _ROOM_BYTES
        if self.profile.shares_gpu:
            least_bytes = self.waiting.wanted * self.profile.world_size * gpus.RANK_BYTES
        return nvml.have_room(nvml.read(own), gpus=own, least_bytes=least_bytes)

    def start_trusted(self) -> None:
        """Start trusted ranks in place of those that were dropped."""
        self._keep_waiting(self.trusted.start)

    def refill(self) -> None:
        """Let as many groups start their ranks as are to wait for the next evaluation."""
        if self.settings.warm:
            self._keep_waiting(self.waiting.refill)

    def _keep_waiting(self, step: Callable[[], object]) -> None:
        """A failure here does not change the present verdict; the next evaluation raises it if it fails again."""
        try:
            step()
        except EvaluatorError as error:
            logger.warning("ranks for the next evaluation could not be started: %s", error)
