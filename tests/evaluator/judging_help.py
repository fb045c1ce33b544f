"""Requests for tests that judge the small programs in `submissions/`."""

import math
import time
from pathlib import Path

import msgspec

from evaluator.contract import (
    Backend,
    EvaluationReport,
    EvaluationRequest,
    Mode,
    SandboxLevel,
    SourceBundle,
    SourceFile,
    Stage,
)
from evaluator.hardware import profiles
from evaluator.host import Judge, JudgeSettings
from evaluator.host.job import Job
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.resources import Resources
from evaluator.host.sandbox.bubblewrap import Confinement
from evaluator.host.sandbox.cpu_sets import shares_for
from problems import registry

SUBMISSIONS = Path(__file__).parent / "submissions"


def request_for(name: str, *, mode: Mode = Mode.CHECK, problem: str = "allreduce") -> EvaluationRequest:
    """A request to judge `submissions/<name>.py`."""
    text = (SUBMISSIONS / f"{name}.py").read_text(encoding="utf-8")
    return request_for_text(text, mode=mode, problem=problem)


def request_for_text(text: str, *, mode: Mode = Mode.CHECK, problem: str = "allreduce") -> EvaluationRequest:
    """A request to judge `text` as solution.py."""
    return EvaluationRequest(
        evaluation_id="test",
        problem=problem,
        revision=registry.revision(problem),
        source=SourceBundle(files=(SourceFile(path="solution.py", text=text),)),
        backend=Backend.PYTORCH,
        profile="cpux2",
        mode=mode,
    )


def job_for(
    settings: JudgeSettings,
    *,
    mode: Mode = Mode.RANKED,
    backend: Backend = Backend.PYTORCH,
    problem: str = "allreduce",
) -> Job:
    """A job on a slot with `settings`, for what plans or checks calls without making any."""
    profile = profiles.get(settings.profile)
    confinement = Confinement(level=SandboxLevel.NONE)
    resources = Resources(profile=profile, settings=settings, confinement=confinement, shares=shares_for(profile))
    request = msgspec.structs.replace(request_for("correct", mode=mode, problem=problem), backend=backend)
    return Job(request=request, resources=resources, deadlines=Deadlines(0.0))


def evaluate_within(judge: Judge, request: EvaluationRequest, *, seconds: float) -> tuple[EvaluationReport, float]:
    """The report, and for how many seconds from the import on the evaluation held its slot; 0 without an import.

    Its deadline comes `seconds` after the import begins. How long ranks take to start on a busy machine does not count.
    """
    deadlines = Deadlines(math.inf)

    def progress(_stage: Stage, words: str, _fraction: float | None, _points: object = ()) -> None:
        if words == "importing solution.py":
            deadlines.evaluation = time.monotonic() + seconds

    report = judge.evaluate(request, progress=progress, deadlines=deadlines)
    return report, max(0.0, time.monotonic() - deadlines.evaluation + seconds)
