"""Judge programs of the cheats' corpus many times over and count: cheats caught, honest twins refused, how narrowly.

    python -m tools.gpu.cheat_rounds [NAME ...] [--rounds 20] [--profile cpux2] [--as-written]

Each round varies the program (other counts, other private names) unless an option says otherwise. Prints one
line per judgement and exits 0 when every cheat was caught and every twin passed.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from statistics import median

from evaluator.contract import EvaluationReport, SizeRecord, Verdict
from evaluator.hardware import profiles
from evaluator.host import Judge, JudgeSettings
from evaluator.judging import timing
from tests.evaluator.cheat_corpus import Program, programs, varied
from tests.evaluator.forged_times import gain


def main() -> int:
    """Judge what the command line names; by default every program that the profile can run."""
    options = _options()
    profile = profiles.get(options.profile)
    chosen = [program for program in programs().values() if program.runs_on(profile)]
    if options.names:
        chosen = [program for program in chosen if program.name in options.names]
    right: Counter[bool] = Counter()
    tried: Counter[bool] = Counter()
    settings = JudgeSettings(profile=profile.name, call_limit_s=options.call_limit, first_call_s=options.call_limit)
    with Judge(settings) as judge:
        for number in range(options.rounds):
            for program in chosen:
                dice = random.Random(f"{program.name} {number} {options.seed}")
                text = program.text if options.as_written else varied(program.text, dice)
                start = time.monotonic()
                report = judge.evaluate(program.request(text=text, profile=profile.name))
                is_right = report.verdict in program.accepted and not (
                    program.forges_time and report.timing is not None and gain(report)
                )
                tried[program.is_twin] += 1
                right[program.is_twin] += is_right
                word = "as it should be" if is_right else "NOT as it should be"
                _say(f"{program.name} round {number + 1}: {report.verdict}, {word}, {time.monotonic() - start:.1f} s")
                for line in _details(program, report, is_right=is_right):
                    _say(f"    {line}")
    _say(f"{profile.name}: cheats caught {right[False]} of {tried[False]}, twins passed {right[True]} of {tried[True]}")
    return 0 if right == tried else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Judge the cheats' corpus many times over.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--profile", default="cpux2")
    parser.add_argument("--seed", default="")
    parser.add_argument("--as-written", action="store_true", help="no variations")
    parser.add_argument("--call-limit", type=float, default=5.0, metavar="SECONDS")
    return parser.parse_args()


def _details(program: Program, report: EvaluationReport, *, is_right: bool) -> Iterator[str]:
    if not is_right:
        yield from (f"{finding.verdict}: {finding.message}" for finding in report.findings)
        yield from (f"rank {rank.rank}: {rank.error or rank.log[-400:]}" for rank in report.ranks)
    elif not program.is_twin and report.verdict is not Verdict.PASSED:
        yield report.message[:200]
    if report.record is not None:
        for record in report.record.sizes:
            if record.blocks:
                yield margins(report, record)


def margins(report: EvaluationReport, record: SizeRecord) -> str:
    """How far a timed series lies from every threshold of its profile, in one line; times in microseconds."""
    assert report.record is not None
    net = timing.NetSeries(record, report.record.rules)
    ours, theirs = (median(time for block in side for time in block) for side in (net.candidate, net.reference))
    shortest = min(median(call.time_ns for call in block) / 1000 for block in timing.timed_blocks(record))
    return (
        f"{record.size} group {record.group_number}: {ours:.1f} against {theirs:.1f} in {len(record.blocks)} blocks, "
        f"floor {record.floor_us or 0:.1f}, shortest block {shortest:.1f} with what an empty call takes "
        f"({timing.candidate_empty_us(record):.1f}, {timing.forgeable_us(record):.1f} of it forgeable), "
        f"busy {record.busy_ns / 1e6:.0f} of {record.watched_ns / 1e6:.0f} ms"
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
