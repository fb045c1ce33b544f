# A table on standard output is what it is for.
"""The axes of problems, every point checked: is it legal, and has a rank the memory for it?

    python -m tools.tables.axes [--run RANKS] [SLUG ...]

Prints a line per point: bytes of inputs and outputs on a rank, operations, and bytes on the wire, all at most over the
world sizes tried. With --run the reference runs at the points around `tiny` on so many CPU ranks, and the oracle checks
its outputs. Exits 1 where a point is wrong, and says why.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence

from problems import registry
from problems.harness.ranks import Ranks
from problems.harness.trials import REFERENCE, Trial, attempt
from problems.spec.memory import held_bytes
from problems.spec.schema import Point, Problem, SizeName

WORLD_SIZES = (2, 4, 8)
MOST_HELD_BYTES = 40e9
"""As at every size: half of a GPU is the submission's."""


def main() -> int:
    """Check and print the points of all problems, or of those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=int, choices=(2, 4), help="run the reference on so many CPU ranks")
    parser.add_argument("slugs", nargs="*", metavar="SLUG")
    options = parser.parse_args()
    problems = [each for each in registry.problems() if each.axes and each.slug in (options.slugs or [each.slug])]
    failed = 0
    for problem in problems:
        for axis in problem.axes:
            print(f"{problem.number:02d} {problem.slug}: {axis.name} in {axis.unit}; fixed: {axis.fixed}")
            for point in axis.points(SizeName):
                found = list(against(problem, point))
                failed += bool(found)
                print(f"  {point.name:24} {figures(problem, point)}{'; '.join(['', *found])}", flush=True)
    if options.run:
        with Ranks(options.run) as ranks:
            for problem in problems:
                for point in problem.points((SizeName.TINY,)):
                    found = run(ranks, problem, point)
                    failed += bool(found)
                    print(f"{problem.slug} {point.name}: {found or 'correct'}", flush=True)
    return 1 if failed else 0


def accepted(problem: Problem) -> Sequence[int]:
    """The world sizes tried that the problem runs on."""
    return [ranks for ranks in WORLD_SIZES if problem.refuses_world_size(ranks) is None]


def against(problem: Problem, point: Point) -> Iterator[str]:
    """What is wrong with a point, at every world size tried: its dimensions, its cost, its memory."""
    for ranks in accepted(problem):
        dims = problem.dims(point.name, ranks)
        if dims.keys() != problem.dims(point.size, ranks).keys():
            yield f"on {ranks} ranks it has other dimensions than {point.size}: {dims}"
        if wrong := {name: extent for name, extent in dims.items() if extent < 1}:
            yield f"on {ranks} ranks dimensions are below 1: {wrong}"
            continue
        cost, held = problem.cost(dims, ranks, 2), held_bytes(problem, dims)
        if not 0 <= cost.wire_bytes <= cost.reference_wire_bytes or cost.memory_bytes <= 0:
            yield f"on {ranks} ranks the cost makes no sense: {cost}"
        if max(held, cost.memory_bytes) > MOST_HELD_BYTES:
            yield f"on {ranks} ranks a rank holds {held / 1e9:.1f} GB, more than {MOST_HELD_BYTES / 1e9:.0f}"


def figures(problem: Problem, point: Point) -> str:
    """Bytes held, operations and bytes on the wire of the busiest rank, at most over the world sizes tried."""
    dims = {ranks: problem.dims(point.name, ranks) for ranks in accepted(problem)}
    costs = [problem.cost(dims[ranks], ranks, 2) for ranks in dims]
    held = max(held_bytes(problem, each) for each in dims.values())
    flops, wire = max(sum(cost.flops.values()) for cost in costs), max(cost.reference_wire_bytes for cost in costs)
    return f"{held / 1e6:12.3f} MB held {flops / 1e9:12.3f} GFLOP {wire / 1e6:12.3f} MB on the wire"


def run(ranks: Ranks, problem: Problem, point: Point) -> str:
    """Why the reference is not correct at a point; "" where it is."""
    key = hashlib.sha256(f"{problem.slug}/{point.name}".encode()).digest()
    outcomes = ranks.run(attempt, Trial(slug=problem.slug, program=REFERENCE, size=point.name, key=key))
    return "; ".join(f"rank {rank}: {outcome}" for rank, outcome in enumerate(outcomes) if not outcome.passed)


if __name__ == "__main__":
    sys.exit(main())
