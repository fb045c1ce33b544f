"""How long judging takes by stage, cold and warm, and how far scores of one submission lie apart.

`python -m tools.bench.judging [--profile cpux2] [--mode ranked] [--times 5] [--trials 1] [SLUG FILE BACKEND ...]`
judges every submission once with a judge that has just started (cold). It then judges it repeatedly with the same
judge, each time when its ranks are ready (warm). For comparison it launches the problem's reference the way of a
benchmark script, two launches a trial at every size that counts.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from evaluator.contract import Backend, EvaluationReport, EvaluationRequest, Mode, SourceBundle, SourceFile, Stage
from evaluator.hardware import profiles
from evaluator.host import Judge, JudgeSettings
from problems import registry
from tools.bench import launches


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


def kernels_s(report: EvaluationReport) -> float:
    """What the timed programs themselves took: the slowest rank's time of every call of either side, in seconds."""
    sizes = report.record.sizes if report.record else ()
    submitted = sum(call.time_ns for size in sizes for call in size.calls)
    return (submitted + sum(call.time_ns for size in sizes for block in size.reference for call in block)) * 1e-9


def line(kind: str, report: EvaluationReport, seconds: float) -> str:
    """A report as one line: verdict, total and what of it is neither compiling nor the programs, stages, score."""
    stages = ", ".join(f"{each.stage} {each.seconds:.2f}" for each in report.stages)
    beyond = seconds - kernels_s(report) - sum(each.seconds for each in report.stages if each.stage is Stage.BUILDING)
    timing = report.timing
    score = f"{timing.score:.3f} ({timing.low:.3f} to {timing.high:.3f})" if timing else "-"
    told = f"{seconds:6.2f} s, {beyond:5.2f} s beyond the programs"
    return f"{kind:8} {report.mode:7} {report.verdict:18} {told}  score {score}  [{stages}]"


def measure(
    profile: str, jobs: Sequence[tuple[str, Path, Backend]], *, modes: Sequence[Mode], times: int, trials: int
) -> None:
    """Judge every job cold in every mode, then `times` times warm; make `trials` trials by launches."""
    for slug, path, backend in jobs:
        print(f"{slug} {path.name} {backend} on {profile}")
        for mode in modes:
            wanted = request(slug, path, backend, profile=profile, mode=mode)
            start = time.monotonic()
            with Judge(JudgeSettings(profile=profile)) as judge:
                report, _ = judged(judge, wanted)
                print(line("cold", report, time.monotonic() - start), flush=True)
                warm = []
                for _ in range(times):
                    start = time.monotonic()
                    judge.slot.waiting.wait_until_ready()
                    waited = time.monotonic() - start
                    warm.append(judged(judge, wanted))
                    print(f"{line('warm', *warm[-1])}, ready after {waited:.2f} s", flush=True)
            scores = [report.timing.score for report, _ in warm if report.timing]
            if scores:
                spread = max(scores) / min(scores) - 1
                print(f"{len(scores)} warm scores lie {spread:.1%} apart")
        if trials:
            launched(slug, profile, trials=trials)


def launched(slug: str, profile: str, *, trials: int) -> None:
    """The same problem by launches: compiling apart, what a program is makes no difference to them."""
    reference = registry.folder(slug) / "reference.py"
    sizes = profiles.get(profile).sizes[Mode.RANKED]
    took = [one for size in sizes for one in launches.trials(slug, reference, profile=profile, size=size, count=trials)]
    print(f"{len(took)} launches at {', '.join(sizes)}: {sum(took):.1f} s, {sum(took) / len(took):.2f} s each")


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="cpux2")
    parser.add_argument("--mode", type=Mode, action="append", help="check and ranked by default")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--trials", type=int, default=1, help="trials of two launches each, for comparison")
    parser.add_argument("jobs", nargs="*", help="SLUG FILE BACKEND, repeated; the all-reduce's reference by default")
    options = parser.parse_args()
    words = options.jobs or ["allreduce", str(registry.folder("allreduce") / "reference.py"), "pytorch"]
    triples = zip(words[::3], words[1::3], words[2::3], strict=True)
    jobs = [(slug, Path(path), Backend(backend)) for slug, path, backend in triples]
    modes = options.mode or [Mode.CHECK, Mode.RANKED]
    measure(options.profile, jobs, modes=modes, times=options.times, trials=options.trials)


if __name__ == "__main__":
    main()
