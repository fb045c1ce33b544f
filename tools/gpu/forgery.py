"""What a forged time gains on GPUs (nothing is right): references as submissions, with honest and with forged clocks.

    python -m tools.gpu.forgery [SLUG:SIZE ...] [--profile h200x2-nomc] [--share 0.1 --share 0.6]

A forger multiplies the time between two CUDA events by its share, in Python (row 1) or in the runtime's code (row 2).
It passes with the score of the honest program, because no score uses events. Or it works while a call is read (row 6),
when the inputs are still sealed: its values are wrong. Prints a line per judgement: verdict, score, self-reported
times, and the times that confirm or refute them.
"""

import argparse
import re
import sys

from evaluator.contract import Backend, EvaluationReport, EvaluationRequest, Mode, SourceBundle, SourceFile
from evaluator.hardware import profiles
from evaluator.host import Judge, JudgeSettings
from evaluator.judging import timing
from problems import registry
from tests.evaluator.cheat_corpus import programs
from tools.gpu.cheat_rounds import margins

_HOOKS = ("r01_event_monkeypatch", "r02_event_timer_hook")
_EARLY = """

import sys

_buffers = sys.modules["evaluator.arena.call_buffer"]
_read_call, _honest, _ready = _buffers.read_call, solution, []


def _early(*arguments, **places):
    call = _read_call(*arguments, **places)
    _ready.append(_honest(*call.arguments))
    return call


_buffers.read_call = _early


def solution(*arguments):
    return _ready.pop(0)
"""
_CASES = ("allreduce:base", "gemm_allreduce:large", "vocab_parallel_log_prob_topk:large")


def main() -> int:
    """Judge every case honestly, then by every hook and share."""
    options = _options()
    shares = options.share or (0.1, 0.6)
    ways = [("", 1.0), ("early", 1.0), *((hook, share) for share in shares for hook in _HOOKS)]
    settings = JudgeSettings(profile=profiles.get(options.profile).name, blocks=options.blocks, records_work=False)
    with Judge(settings) as judge:
        for case in options.cases or _CASES:
            for hook, share in ways:
                report = judge.evaluate(_request(case, profile=options.profile, hook=hook, share=share))
                sys.stdout.write(f"{case} {hook or 'honest'} {share:g}: {_shown(report)}\n")
                sys.stdout.flush()
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Show what a forged time gains.")
    parser.add_argument("cases", nargs="*", metavar="SLUG:SIZE")
    parser.add_argument("--profile", default="h200x2-nomc")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--share", type=float, action="append", metavar="SHARE")
    return parser.parse_args()


def _request(case: str, *, profile: str, hook: str, share: float) -> EvaluationRequest:
    slug, size = case.split(":")
    honest = (registry.folder(slug) / "reference.py").read_text()
    files = [SourceFile(path="solution.py", text=honest)]
    if hook == "early":
        files = [SourceFile(path="solution.py", text=honest + _EARLY)]
    elif hook:
        forger = re.sub(r"^_SHARE = .*$", f"_SHARE = {share}", programs()[hook].text, flags=re.MULTILINE)
        files = [
            SourceFile(path="hook.py", text=forger),
            SourceFile(path="solution.py", text=f"{honest}\n\nimport hook  # noqa: E402, F401\n"),
        ]
    return EvaluationRequest(
        evaluation_id=f"{slug}-{hook or 'honest'}",
        problem=slug,
        revision=registry.revision(slug),
        source=SourceBundle(files=tuple(files)),
        backend=Backend.PYTORCH,
        profile=profile,
        mode=Mode.BENCHMARK,
        sizes=(size,),
    )


def _shown(report: EvaluationReport) -> str:
    records = () if report.record is None else report.record.sizes
    if report.record is None or not any(record.blocks for record in records):
        return f"{report.verdict}: {report.message}"
    found = timing.conclude(records, report.record.rules)[0]
    claims = ", ".join(f"{size.claimed_us or 0:.1f} us at {size.size}" for size in found.sizes)
    return (
        f"{report.verdict}, {found.score:.3f} times the reference, claimed {claims}; "
        f"{'; '.join(margins(report, each) for each in records)}"
    )


if __name__ == "__main__":
    sys.exit(main())
