# A table on standard output is what it is for.
"""Does a submission have half of a GPU's memory? References that hold so much, judged at the ranked sizes.

    python -m tools.gpu.half_of_memory --profile h200x2-nomc [--share 0.5] [--seconds 200] [SLUG ...]

By default the ten problems are tried whose calls hold most. A program's share is what it allocates for itself: inputs
and the areas for outputs are the judge's. A probe first judges the reference alone, so that reference and ballast
together come to the share. Prints a line per problem: verdict, and what judge and submission held. Exits 1 where a
program did not pass.
"""

import argparse
import os
import sys
import time

from evaluator.contract import Backend, EvaluationRequest, Mode, SourceBundle, SourceFile
from evaluator.hardware import profiles
from evaluator.host import Judge, JudgeSettings
from problems import registry
from problems.spec.memory import held_bytes
from problems.spec.schema import SizeName
from tools.gpu.programs import NO_MULTICAST

_MOST = 10
_BALLAST = """

import torch as _torch

_ballast = _torch.empty({size}, dtype=_torch.uint8, device=_torch.device("cuda", _torch.cuda.current_device()))
"""


def main() -> int:
    """Judge every problem twice: alone, and with ballast."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", required=True)
    parser.add_argument("--share", type=float, default=0.5, help="of a GPU's memory")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no problem is begun after so many")
    parser.add_argument("slugs", nargs="*", metavar="SLUG")
    options = parser.parse_args()
    os.environ |= NO_MULTICAST
    end, failed = time.monotonic() + options.seconds, 0
    with Judge(JudgeSettings(profile=options.profile, blocks=4, records_work=False)) as judge:
        for slug in options.slugs or largest(options.profile):
            if time.monotonic() > end:
                print(f"{slug:46} left out: the time is up")
                continue
            failed += not is_enough(judge, slug, profile=options.profile, share=options.share)
    return 1 if failed else 0


def largest(profile: str) -> list[str]:
    """The problems whose calls hold most on one rank, the largest first."""
    ranks = profiles.get(profile).world_size
    large = [each for each in registry.problems() if each.refuses(ranks, (SizeName.LARGE,)) is None]
    large.sort(key=lambda problem: held_bytes(problem, problem.dims(SizeName.LARGE, ranks)), reverse=True)
    return [problem.slug for problem in large[:_MOST]]


def is_enough(judge: Judge, slug: str, *, profile: str, share: float) -> bool:
    """Whether a program of this share passes; raises RuntimeError where a probe did not tell its memory."""
    alone = judge.evaluate(request(slug, profile=profile, ballast=0))
    used = [size.memory for size in alone.sizes if size.memory]
    if alone.verdict != "PASSED" or not used:
        print(f"{slug:46} alone: {alone.verdict} {alone.message[:200]}", flush=True)
        return False
    ballast = int(share * used[0].total_bytes) - max(memory.submission_bytes for memory in used)
    report = judge.evaluate(request(slug, profile=profile, ballast=max(1, ballast)))
    held = [size.memory for size in report.sizes if size.memory]
    words = "; ".join(
        f"judge {memory.judge_bytes / 1e9:.1f} GB, submission {memory.submission_bytes / 1e9:.1f} GB" for memory in held
    )
    print(
        f"{slug:46} {report.verdict}  {words}  {'' if report.verdict == 'PASSED' else report.message[:300]}", flush=True
    )
    return report.verdict == "PASSED"


def request(slug: str, *, profile: str, ballast: int) -> EvaluationRequest:
    """The request to judge the reference with so many bytes of ballast on every rank."""
    text = registry.reference_source(slug) + (_BALLAST.format(size=ballast) if ballast else "")
    return EvaluationRequest(
        evaluation_id=f"{slug}-{ballast}",
        problem=slug,
        revision=registry.revision(slug),
        source=SourceBundle(files=(SourceFile(path="solution.py", text=text),)),
        backend=Backend.PYTORCH,
        profile=profile,
        mode=Mode.RANKED,
    )


if __name__ == "__main__":
    sys.exit(main())
