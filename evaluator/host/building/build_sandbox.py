"""The sandbox of one build: the submission's files go in, what the compilers made comes out."""

import dataclasses
import os
import tempfile
from pathlib import Path

from evaluator.contract import SandboxLevel
from evaluator.errors import LimitExceeded
from evaluator.hardware import profiles
from evaluator.host.building import builder_process, what_to_build
from evaluator.host.building.build_job import BuildJob
from evaluator.host.building.builder_process import BuildLimits, Sent
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


def build(job: BuildJob, *, limits: BuildLimits) -> Sent:
    """What the builder's program sends, run on the submission in a sandbox of its own, within `limits`.

    Raises:
        Cancelled: nobody wants the build any more.
        LimitExceeded: of the build, or of the evaluation that waits for it.
        EvaluatorError: the process could not be started, or does not end.
        NodeTrouble: its sandbox does not start.
    """
    confinement = job.confinement
    with tempfile.TemporaryDirectory(prefix="build-", dir=job.workdir) as name:
        private = Path(name)
        write_private(private)
        for file in job.request.source.files:
            readable_file(private / "source" / file.path, file.text)
        bare = confinement.level is SandboxLevel.NONE
        home = str(home_without_sandbox(private, confinement)) if bare else "/tmp"  # noqa: S108 - the sandbox's own tmpfs
        call_filter = None if bare else open_filter()
        inherited = () if call_filter is None else (call_filter,)
        group = _group(confinement, limits, name=private.name)

        def line_for(output: int) -> list[str]:
            line = _line(job, private, limits=limits, home=home, output=output, call_filter=call_filter)
            return inside_groups(line, group.entrances) if group is not None else line

        try:
            return builder_process.run(
                line_for,
                environment=environment(job.profile, home=home) if bare else {},
                limits=limits,
                deadlines=job.deadlines,
                inherited=inherited,
            )
        finally:
            for descriptor in inherited:
                os.close(descriptor)
            _end_group(group, limits)


def _group(confinement: Confinement, limits: BuildLimits, *, name: str) -> Group | None:
    allowed = GroupLimits(
        memory_bytes=limits.memory_bytes,
        processes=limits.processes,
        cores=limits.cores,
        processors=limits.processors,
    )
    return confinement.hierarchy.new(name, allowed) if confinement.hierarchy is not None else None


def _end_group(group: Group | None, limits: BuildLimits) -> None:
    """End all processes of a build; raises LimitExceeded where the kernel ended one for its memory."""
    if group is None:
        return
    group.kill()
    kills = group.memory_kills
    group.remove()
    if kills:
        raise LimitExceeded(f"the build used more than {limits.memory_bytes:,} bytes of memory")


def _line(
    job: BuildJob, private: Path, *, limits: BuildLimits, home: str, output: int, call_filter: int | None
) -> list[str]:
    """The command line of the process, which writes to the descriptor `output`."""
    confinement, profile = job.confinement, job.profile
    inside = layout(confinement, private=private)
    arguments = {
        "source": inside.source,
        "compat": inside.compat,
        "scratch": f"{home}/extensions",
        "architectures": profiles.architectures(profile),
        "world_size": profile.world_size,
        "calls": what_to_build.kernel_arguments(job.request, profile),
        # The same path as in the ranks, because Triton stores absolute paths.
        "triton_cache": f"{home}/triton",
        "capability": profiles.capability(profile),
        "output": output,
    }
    program = builder_process.inside(arguments, program=inside.builder)
    settings = dataclasses.replace(job.settings, temporary_bytes=limits.scratch_bytes)
    line = command(confinement, program, private=private, profile=profile, settings=settings, call_filter=call_filter)
    hierarchy = confinement.hierarchy
    are_counted = hierarchy is not None and "pids" in hierarchy.folders
    return builder_process.limited(line, limits, are_counted=are_counted)
