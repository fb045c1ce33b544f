"""Requests for tests that judge the small programs in `submissions/`."""

import math
import time
from pathlib import Path

from evaluator.contract import Backend, EvaluationReport, EvaluationRequest, Mode, SourceBundle, SourceFile, Stage
from evaluator.host import Judge
from evaluator.host.process.deadlines import Deadlines
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


def evaluate_within(judge: Judge, request: EvaluationRequest, *, seconds: float) -> tuple[EvaluationReport, float]:
    """The report, and for how many seconds from the import on the evaluation held its slot; 0 without an import.

    Its deadline comes `seconds` after the import begins. How long ranks take to start on a busy machine does not count.
    """
    deadlines = Deadlines(math.inf)

    def progress(_stage: Stage, words: str, _fraction: float | None) -> None:
        if words == "importing solution.py":
            deadlines.evaluation = time.monotonic() + seconds

    report = judge.evaluate(request, progress=progress, deadlines=deadlines)
    return report, max(0.0, time.monotonic() - deadlines.evaluation + seconds)
