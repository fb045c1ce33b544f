"""How long judging takes by stage, cold and warm, and how far scores of one submission lie apart.

`python -m tests.bench.judging [--profile cpux2] [--times 5] [SLUG FILE BACKEND ...]` judges every submission once with
a judge that has just started (cold) and then again and again with the same judge (warm).
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from evaluator.contract import Backend, EvaluationReport, EvaluationRequest, Mode, SourceBundle, SourceFile
from evaluator.host import Judge, JudgeSettings
from problems import registry


def request(slug: str, path: Path, backend: Backend, *, profile: str, mode: Mode) -> EvaluationRequest:
    """The request to judge one file."""
    source = SourceBundle(files=(SourceFile(path="solution.py", text=path.read_text()),))
    return EvaluationRequest(
        evaluation_id="bench",
        problem=slug,
        revision=registry.revision(slug),
        source=source,
        backend=backend,
        profile=profile,
        mode=mode,
    )


def judged(judge: Judge, wanted: EvaluationRequest) -> tuple[EvaluationReport, float]:
    """One report, and the seconds from claiming the evaluation to its verdict."""
    start = time.monotonic()
    report = judge.evaluate(wanted)
    return report, time.monotonic() - start


def line(kind: str, report: EvaluationReport, seconds: float) -> str:
    """A report as one line: verdict, total, stages, score."""
    stages = ", ".join(f"{each.stage} {each.seconds:.2f}" for each in report.stages)
    timing = report.timing
    score = f"{timing.score:.3f} ({timing.low:.3f} to {timing.high:.3f})" if timing else "-"
    return f"{kind:8} {report.mode:7} {report.verdict:18} {seconds:6.2f} s  score {score}  [{stages}]"


def measure(profile: str, jobs: Sequence[tuple[str, Path, Backend]], *, times: int) -> None:
    """Judge every job cold in both modes, then `times` times warm."""
    for slug, path, backend in jobs:
        print(f"{slug} {path.name} {backend} on {profile}")
        for mode in (Mode.CHECK, Mode.RANKED):
            wanted = request(slug, path, backend, profile=profile, mode=mode)
            start = time.monotonic()
            with Judge(JudgeSettings(profile=profile)) as judge:
                report, _ = judged(judge, wanted)
                print(line("cold", report, time.monotonic() - start))
                warm = [judged(judge, wanted) for _ in range(times)]
            for report, seconds in warm:
                print(line("warm", report, seconds))
            scores = [report.timing.score for report, _ in warm if report.timing]
            if scores:
                spread = max(scores) / min(scores) - 1
                print(f"{len(scores)} warm scores lie {spread:.1%} apart")


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="cpux2")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("jobs", nargs="*", help="SLUG FILE BACKEND, repeated; the all-reduce's reference by default")
    options = parser.parse_args()
    words = options.jobs or ["allreduce", str(registry.folder("allreduce") / "reference.py"), "pytorch"]
    triples = zip(words[::3], words[1::3], words[2::3], strict=True)
    jobs = [(slug, Path(path), Backend(backend)) for slug, path, backend in triples]
    measure(options.profile, jobs, times=options.times)


if __name__ == "__main__":
    main()
