"""Reads built modules outside the sandbox that made them: what they use, and their machine code."""

import contextlib
from collections.abc import Iterator, Mapping

from evaluator.contract import Detection, MachineCode
from evaluator.hardware import profiles
from evaluator.host.building import code_listing, detections, disassembly
from evaluator.host.building.build_job import BuildJob
from evaluator.host.building.builder_process import BuildCancelled, BuildLimitExceeded
from evaluator.host.process.helper_process import HelperCancelled, HelperLimitExceeded, HelperProcess
from evaluator.host.process.spawner import Spawner
from evaluator.host.settings import JudgeSettings


class ModuleReader:
    """Reads the modules of builds.

    Args:
        settings: the slot's.
        helper: the process that reads; None for one of its own in each build.
    """

    def __init__(self, settings: JudgeSettings, *, helper: HelperProcess | None) -> None:
        self._settings = settings
        self._profile = profiles.get(settings.profile)
        self._helper = helper

    def detections(self, artefacts: dict[str, bytes], job: BuildJob) -> tuple[Detection, ...]:
        """What modules (by relative path) use; raises BuildCancelled and BuildLimitExceeded."""
        listings = disassembly.listings(artefacts, job=job, profile=self._profile, settings=self._settings)
        with self._helper_process() as helper:
            return detections.find(
                artefacts,
                listings,
                helper=helper,
                workdir=job.workdir,
                within=job.deadlines.step,
                cancelled=job.cancelled,
            )

    def machine_code(
        self, artefacts: Mapping[str, bytes], job: BuildJob, *, origins: dict[str, tuple[str, int]]
    ) -> MachineCode:
        """The machine code of modules with source lines; raises BuildCancelled and BuildLimitExceeded.

        `origins` says by extension in which file of the submission, and at which line, its CUDA source begins.
        """
        with self._helper_process() as helper:
            code = code_listing.machine_code(
                artefacts, job=job, origins=origins, profile=self._profile, settings=self._settings, helper=helper
            )
        job.refuse_late("listing machine code")
        return code

    @contextlib.contextmanager
    def _helper_process(self) -> Iterator[HelperProcess]:
        """The slot's helper process, or one for this build alone; what ends a reading there ends the build."""
        try:
            if self._helper is not None:
                yield self._helper
                return
            with Spawner() as spawner, contextlib.closing(HelperProcess(spawner)) as helper:
                yield helper
        except HelperLimitExceeded as exceeded:
            raise BuildLimitExceeded(f"what was built could not be read: {exceeded}") from exceeded
        except HelperCancelled as cancelled:
            raise BuildCancelled("the build was cancelled") from cancelled
