# ruff: noqa: T201
# A table on standard output is what it is for.
"""Honest programs in every regime of problems, in many calls: how many were refused, and how near a bound they came.

    python -m tests.problems.many_regimes [--calls 100] [--size tiny] [--ranks 2 4] [SLUG ...]

Exits 1 if any was refused. Prints a line per problem, world size and regime.
"""

import argparse
import os
import sys

from problems import registry
from problems.calibration import honest_programs
from problems.implementation import load
from problems.ranks import Ranks
from problems.schema import Problem, Regime, SizeName
from problems.trials import Outcome, Trial, attempt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=100, help="calls per regime, of the reference and every variant")
    parser.add_argument("--size", type=SizeName, default=SizeName.TINY, choices=list(SizeName))
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="default: every problem that has regimes")
    options = parser.parse_args()
    problems = [registry.get(slug) for slug in options.slugs] or [item for item in registry.problems() if item.regimes]
    calls = refused = 0
    for world_size in options.ranks:
        with Ranks(world_size) as ranks:
            for problem in problems:
                if problem.refuses(world_size, [options.size]) is not None:
                    continue
                for regime in problem.regimes_at(options.size, world_size):
                    outcomes = list(tried(ranks, problem, regime, size=options.size, calls=options.calls))
                    wrong = sum(not all(one.passed for one in ranks_of_call) for ranks_of_call in outcomes)
                    calls, refused = calls + len(outcomes), refused + wrong
                    print(f"{problem.slug:40} x{world_size} {regime.name:24} {wrong} of {len(outcomes)} refused, "
                          f"{nearest(outcomes)}", flush=True)  # fmt: skip
    print(f"{refused} of {calls} honest calls refused")
    return 1 if refused else 0


def tried(ranks: Ranks, problem: Problem, regime: Regime, *, size: SizeName, calls: int):
    """The outcomes by rank of every call."""
    for program in honest_programs(load(problem.slug)):
        for index in range(calls):
            trial = Trial(
                slug=problem.slug, program=program, size=size, key=os.urandom(32), index=index, regime=regime.name
            )
            yield ranks.run(attempt, trial)


def nearest(outcomes: list[list[Outcome]]) -> str:
    """The largest error of all, in units of the bound, and the largest root mean square."""
    compared = [found for call in outcomes for outcome in call for found in outcome.comparisons]
    largest, rms = max(found.max_error for found in compared), max(found.rms_error for found in compared)
    return f"largest error {largest:.3g} of the bound, rms {rms:.3g}"


if __name__ == "__main__":
    sys.exit(main())
