"""The sandbox of one build: the submission's files go in, what the compilers made comes out."""

import dataclasses
import os
import tempfile
from pathlib import Path

from evaluator.contract import EvaluationRequest, SandboxLevel
from evaluator.hardware import profiles
from evaluator.host.building import builder_process, what_to_build
from evaluator.host.building.build_job import BuildJob
from evaluator.host.building.builder_process import BuildLimitExceeded, BuildLimits, Sent
from evaluator.host.sandbox.bubblewrap import (
    Confinement,
    command,
    environment,
    home_without_sandbox,
    layout,
    open_filter,
    readable_file,
    write_private,
)
from evaluator.host.sandbox.cgroups import Group, GroupLimits
from evaluator.host.sandbox.host_users import inside_groups
from evaluator.host.settings import JudgeSettings


class BuildSandbox:
    """Runs the builder's program on submissions, each in a sandbox of its own.

    Args:
        settings: the slot's; its profile says for which architecture to build.
        limits: the limits of one build.
    """

    def __init__(self, settings: JudgeSettings, *, limits: BuildLimits) -> None:
        self._settings = settings
        self._profile = profiles.get(settings.profile)
        self._limits = limits

    def build(self, job: BuildJob) -> Sent:
        """What the process inside sends.

        Raises:
            BuildCancelled: `job.cancelled()` became true.
            BuildLimitExceeded: of the build, or of the evaluation that waits for it.
            EvaluatorError: the process could not be started, or does not end.
            NodeTrouble: its sandbox does not start.
        """
        confinement = job.confinement
        with tempfile.TemporaryDirectory(prefix="build-", dir=job.workdir) as name:
            private = Path(name)
            write_private(private)
            for file in job.request.source.files:
                path = private / "source" / file.path
                readable_file(path, file.text)
            bare = confinement.level is SandboxLevel.NONE
            home = str(home_without_sandbox(private, confinement)) if bare else "/tmp"  # noqa: S108 - the sandbox's own tmpfs

            variables = environment(self._profile, home=home) if bare else {}
            call_filter = None if bare else open_filter()
            inherited = () if call_filter is None else (call_filter,)
            group = self._group(confinement, name=private.name)

            def line_for(output: int) -> list[str]:
                line = self._line(job.request, private, confinement, home=home, output=output, call_filter=call_filter)
                return inside_groups(line, group.entrances) if group is not None else line

            try:
                return builder_process.run(
                    line_for,
                    environment=variables,
                    limits=self._limits,
                    deadlines=job.deadlines,
                    inherited=inherited,
                    cancelled=job.cancelled,
                )
            finally:
                for descriptor in inherited:
                    os.close(descriptor)
                self._end_group(group)

    def _group(self, confinement: Confinement, *, name: str) -> Group | None:
        limits = self._limits
        allowed = GroupLimits(
            memory_bytes=limits.memory_bytes,
            processes=limits.processes,
            cores=limits.cores,
            processors=limits.processors,
        )
        hierarchy = confinement.hierarchy
        return hierarchy.new(name, allowed) if hierarchy is not None else None

    def _end_group(self, group: Group | None) -> None:
        """End all processes of a build; raises BuildLimitExceeded where the kernel ended one for its memory."""
        if group is None:
            return
        group.kill()
        kills = group.memory_kills
        group.remove()
        if kills:
            raise BuildLimitExceeded(f"the build used more than {self._limits.memory_bytes:,} bytes of memory")

    def _line(
        self,
        request: EvaluationRequest,
        private: Path,
        confinement: Confinement,
        *,
        home: str,
        output: int,
        call_filter: int | None,
    ) -> list[str]:
        """The command line of the process, which writes to the descriptor `output`."""
        inside = layout(confinement, private=private)
        arguments = {
            "source": inside.source,
            "compat": inside.compat,
            "scratch": f"{home}/extensions",
            "architectures": profiles.architectures(self._profile),
            "world_size": self._profile.world_size,
            "calls": what_to_build.kernel_arguments(request, self._profile),
            # The same path as in the ranks, because Triton stores absolute paths.
            "triton_cache": f"{home}/triton",
            "capability": profiles.capability(self._profile),
            "output": output,
        }
        program = builder_process.inside(arguments, program=inside.builder)
        settings = dataclasses.replace(self._settings, temporary_bytes=self._limits.scratch_bytes)
        line = command(
            confinement, program, private=private, profile=self._profile, settings=settings, call_filter=call_filter
        )
        hierarchy = confinement.hierarchy
        are_counted = hierarchy is not None and "pids" in hierarchy.folders
        return builder_process.limited(line, self._limits, are_counted=are_counted)
