"""Records a call of our own kernels, in mode profile, and says where the time of each went.

    python -m tools.bench.recordings --profile h200x2-nomc --reports FOLDER [--size large,base] [--seconds 85] [FILE ..]

A file is called by its problem (`ring_attention.py`) or follows it (`allgather=FILE`); without any, those in
problems/data/entries are taken. They are compiled side by side, then judged one after another. FOLDER takes a report of
each (`.json.gz`): the page docs/judge/timelines.md is written from such reports. Exits 1 where one did not pass.
"""

import argparse
import contextlib
import gzip
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from evaluator.contract import Backend, EvaluationReport, EvaluationRequest, Mode
from evaluator.hardware import profiles
from evaluator.host import Judge, JudgeSettings
from evaluator.host.build_ahead import BuildAhead
from problems import registry
from tools.bench.judging import request
from tools.gpu.programs import NO_MULTICAST

_ENTRIES = registry.DATA / "entries"
_BUILDS = 6


def requests(files: list[str], *, profile: str, sizes: list[str]) -> list[EvaluationRequest]:
    """What is asked of the judge: every file at the first size, then at the next."""
    asked = []
    for given in files:
        slug, _, name = given.rpartition("=")
        path = Path(name)
        wanted = request(slug or path.stem, path, _backend(path.read_text()), profile=profile, mode=Mode.PROFILE)
        asked.append(msgspec.structs.replace(wanted, evaluation_id=path.stem))
    return [
        msgspec.structs.replace(one, evaluation_id=f"{one.evaluation_id}_{size}", sizes=(size,))
        for size in sizes
        for one in asked
    ]


def _backend(text: str) -> Backend:
    if "compile_cuda_extension" in text:
        return Backend.CUDA
    return Backend.TRITON if "triton" in text else Backend.PYTORCH


def line(report: EvaluationReport, seconds: float) -> str:
    """A report as one line."""
    timeline = report.timeline
    recorded = [] if timeline is None else [call for call in (timeline.submission, timeline.reference) if call]
    spans = ", ".join(str(sum(len(rank.spans) for rank in call.ranks)) for call in recorded)
    told = f"{seconds:6.1f} s  spans {spans or 'none'}  {report.message[:120]}"
    return f"{report.evaluation_id:36} {report.verdict:18} {told}"


def main() -> int:
    """Parse the command line, compile, judge and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", required=True)
    parser.add_argument("--size", default="large", help="names of sizes, with commas between")
    parser.add_argument("--reports", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no judgement is begun after so many")
    parser.add_argument("files", nargs="*", metavar="[SLUG=]FILE")
    options = parser.parse_args()
    os.environ |= NO_MULTICAST
    begun = time.monotonic()
    options.reports.mkdir(parents=True, exist_ok=True)
    files = options.files or sorted(map(str, _ENTRIES.glob("*.py")))
    asked = requests(files, profile=options.profile, sizes=options.size.split(","))
    settings = JudgeSettings(profile=options.profile)
    if profiles.get(options.profile).gpu is not None:
        with contextlib.closing(BuildAhead(settings)) as builders, ThreadPoolExecutor(_BUILDS) as pool:
            # One build serves all sizes.
            list(pool.map(builders.build, {one.source: one for one in asked}.values()))
        print(f"compiled after {time.monotonic() - begun:.1f} s", flush=True)
    has_failed = False
    with Judge(settings) as judge:
        for wanted in asked:
            if time.monotonic() - begun > options.seconds:
                print(f"{wanted.evaluation_id:36} left out: the time is up")
                continue
            judge.slot.waiting.wait_until_ready()
            start = time.monotonic()
            report = judge.evaluate(wanted)
            (options.reports / f"{wanted.evaluation_id}.json.gz").write_bytes(gzip.compress(report.to_json().encode()))
            print(line(report, time.monotonic() - start), flush=True)
            has_failed |= report.verdict != "PASSED"
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
