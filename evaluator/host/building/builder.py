"""Compiles a submission before it occupies ranks: in its own sandbox, once per source and tool chain."""

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.contract import BuildResult, Detection, EvaluationRequest, Finding, MachineCode, Mode, Verdict
from evaluator.errors import LimitExceeded
from evaluator.hardware import profiles
from evaluator.host.building import builder_process, code_listing, disassembly, what_to_build
from evaluator.host.building.build_cache import KEPT_BYTES, BuildCache, KeptBuild
from evaluator.host.building.build_job import BuildJob
from evaluator.host.building.build_record import record_of
from evaluator.host.building.builder_process import BuildLimits
from evaluator.host.process.deadlines import NO_DEADLINES, Deadlines
from evaluator.host.sandbox.bubblewrap import Confinement
from evaluator.host.settings import JudgeSettings


@dataclass(frozen=True, kw_only=True)
class Built:
    """The outcome of a build: findings for the author, and the modules by relative path.

    `code` is the machine code with source lines, where the request's mode asks for it.
    """

    result: BuildResult
    findings: tuple[Finding, ...]
    modules: Mapping[str, bytes] = field(default_factory=dict)
    primitives: tuple[Detection, ...] = ()
    code: MachineCode | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What its report lacks, for the author."""
        return ("the build printed more than is kept: its log lacks the middle",) if self.result.is_cut else ()

    def copy_to(self, target: Path) -> None:
        """Copy the modules into `target`, an existing folder, with the layout that ranks expect."""
        for name, content in self.modules.items():
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in path.relative_to(target).parents[:-1]:
                (target / folder).chmod(0o755)
            path.write_bytes(content)
            path.chmod(0o755)


class Builder:
    """Builds submissions for one slot.

    Args:
        settings: the slot's; its profile says for which architecture to build.
        cache: folder of earlier builds; None for one beside the slot's work directory.
        limits: the limits of one build.
        cache_bytes: the limit for all kept builds together.
    """

    def __init__(
        self,
        settings: JudgeSettings,
        *,
        cache: Path | None = None,
        limits: BuildLimits | None = None,
        cache_bytes: int = KEPT_BYTES,
    ) -> None:
        self._settings = settings
        self._profile = profiles.get(settings.profile)
        self._limits = limits or BuildLimits()
        base = settings.work_dir or Path(tempfile.gettempdir()) / f"pkb-{os.getuid()}"
        self._cache = BuildCache(cache or base / "builds", limit_bytes=cache_bytes)

    def build(
        self,
        request: EvaluationRequest,
        *,
        workdir: Path,
        sandbox: Confinement,
        deadlines: Deadlines = NO_DEADLINES,
    ) -> Built:
        """Build everything that the submission of `request` will ask for, or take it from the cache.

        What is not done at the evaluation's deadline is over its limit, and not kept. In `workdir`, a private folder,
        the build removes what it puts there.

        Raises:
            Cancelled: nobody wants the build any more.
            EvaluatorError: this node cannot build: no tool chain, or the sandbox does not start.
        """
        if not what_to_build.is_needed(request):
            return Built(result=BuildResult(succeeded=True, seconds=0.0, cached=False), findings=())
        job = BuildJob(
            request=request,
            settings=self._settings,
            workdir=workdir,
            confinement=sandbox,
            deadlines=deadlines,
        )
        started = time.monotonic()
        try:
            key = what_to_build.key(request, self._profile)
            build = self._cache.get(key) or self._made(key, job)
            code = self._code(key, build, job)
        except LimitExceeded as exceeded:
            return _over_limit(str(exceeded), seconds=time.monotonic() - started)
        return Built(
            result=build.record.result,
            findings=build.record.findings,
            modules=build.modules,
            primitives=build.record.primitives,
            code=code,
        )

    def _made(self, key: str, job: BuildJob) -> KeptBuild:
        """Build, read what came out, and keep both; raises Cancelled and LimitExceeded.

        What a builder leaves that was killed is used, and not kept: the next build of the source may be whole.
        """
        started = time.monotonic()
        sent = builder_process.build(job, limits=self._limits)
        seconds = time.monotonic() - started
        found = disassembly.detections(sent.artefacts, disassembly.listings(sent.artefacts, job=job), job=job)
        record = record_of(sent, seconds=seconds, primitives=found)
        job.refuse_late("reading what was built")
        build = KeptBuild(record=record, modules=sent.artefacts)
        if sent.has_ended_well:
            self._cache.put(key, build)
        return build

    def _code(self, key: str, build: KeptBuild, job: BuildJob) -> MachineCode | None:
        """The machine code of a build with source lines, listed once; None where the mode does not ask for it."""
        if job.request.mode is not Mode.PROFILE or not build.modules:
            return None
        if (known := self._cache.code(key)) is not None:
            return known
        code = code_listing.machine_code(build.modules, job=job, origins=build.record.origins)
        job.refuse_late("listing machine code")
        self._cache.put_code(key, code)
        return code


def _over_limit(message: str, *, seconds: float) -> Built:
    finding = Finding(verdict=Verdict.LIMIT_EXCEEDED, message=message)
    result = BuildResult(succeeded=False, seconds=seconds, cached=False, log=message)
    return Built(result=result, findings=(finding,))
