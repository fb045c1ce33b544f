# ruff: noqa: T201
# A table on standard output is what it is for.
"""How far honest sums and a wire of 10 bits an element lie apart, in usual calls and where sums are exact.

    python -m tests.problems.wires [--calls 10] [--size tiny] [--ranks 2 4] [SLUG ...]

For every problem with a regime against such wires: the largest root mean square of honest programs' errors, and the
smallest of the wire's, as multiples of the expected output's; beside them the bound of usual calls.
"""

import argparse
import os
from collections.abc import Iterator

from problems import registry
from problems.calibration import honest_programs
from problems.implementation import load
from problems.ranks import Ranks
from problems.schema import Problem, Regime, SizeName
from problems.trials import Trial, attempt

WIRE = "ten_bit_wire"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--size", type=SizeName, default=SizeName.TINY, choices=list(SizeName))
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("slugs", nargs="*", metavar="SLUG")
    options = parser.parse_args()
    problems = [registry.get(slug) for slug in options.slugs] or registry.problems()
    print("| problem | ranks | bound | honest | wire | honest, exact sums | wire, exact sums |")
    print("|---|---|---|---|---|---|---|")
    for world_size in options.ranks:
        with Ranks(world_size) as ranks:
            for problem in problems:
                if problem.refuses(world_size, [options.size]) is None:
                    for regime in problem.regimes:
                        if regime.narrow == WIRE:
                            print(row(ranks, problem, regime, size=options.size, calls=options.calls), flush=True)


def row(ranks: Ranks, problem: Problem, regime: Regime, *, size: SizeName, calls: int) -> str:
    cells = []
    for where in ("", regime.name):
        honest = [
            error
            for program in honest_programs(load(problem.slug))
            for error in errors(ranks, problem, program, where, size=size, calls=calls)
        ]
        wire = list(errors(ranks, problem, f"narrow:{regime.name}", where, size=size, calls=calls))
        cells += [f"{max(honest):.2g}", f"{min(wire):.2g}"]
    bound = ", ".join(f"{output.tolerance.rms:g}" for output in problem.outputs if output.tolerance.rms)
    return f"| {problem.slug} | {ranks.world_size} | {bound} | {' | '.join(cells)} |"


def errors(ranks: Ranks, problem: Problem, program: str, regime: str, *, size: SizeName, calls: int) -> Iterator[float]:
    """The root mean square of the errors of every call, of the worst rank and output."""
    for index in range(calls):
        trial = Trial(slug=problem.slug, program=program, size=size, key=os.urandom(32), index=index, regime=regime)
        yield max(found.rms_error for outcome in ranks.run(attempt, trial) for found in outcome.comparisons)


if __name__ == "__main__":
    main()
