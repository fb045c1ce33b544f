"""Requests for tests that judge the small programs in `submissions/`."""

from pathlib import Path

from evaluator.contract import Backend, EvaluationRequest, Mode, SourceBundle, SourceFile
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
