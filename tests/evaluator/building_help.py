"""Builds for tests that read what was built."""

from pathlib import Path

from evaluator.contract import Backend, EvaluationRequest, Mode, SourceBundle, SourceFile
from evaluator.host.building.build_job import BuildJob
from evaluator.host.process.deadlines import NO_DEADLINES, Deadlines
from evaluator.host.sandbox.bubblewrap import Confinement
from evaluator.host.settings import JudgeSettings

GPU_PROFILE = "h200x2-nomc"


def build_request(*files: tuple[str, str], mode: Mode = Mode.CHECK) -> EvaluationRequest:
    """A request for a submission of these files (path and text)."""
    return EvaluationRequest(
        evaluation_id="e1",
        problem="allgather",
        revision="r",
        source=SourceBundle(files=tuple(SourceFile(path=path, text=text) for path, text in files)),
        backend=Backend.CUDA,
        profile=GPU_PROFILE,
        mode=mode,
    )


def build_job(
    workdir: Path,
    confinement: Confinement,
    *,
    request: EvaluationRequest | None = None,
    deadlines: Deadlines = NO_DEADLINES,
) -> BuildJob:
    """A build in `workdir` that nobody waits for."""
    return BuildJob(
        request=request or build_request(("solution.py", "...")),
        settings=JudgeSettings(profile=GPU_PROFILE),
        workdir=workdir,
        confinement=confinement,
        deadlines=deadlines,
    )
