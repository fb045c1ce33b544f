# A table on standard output is what it is for.
"""How much of each problem's space a judgement meets: regimes, pairs that fit, calls, and the share of pairs covered.

    python -m tools.tables.covered_pairs [--size tiny] [--ranks 2] [--judgements 5] [SLUG ...]

Each line ends with the share of pairs in the worst of several judgements, and in all of them together.
"""

import argparse
from itertools import combinations
from random import SystemRandom

from evaluator.host.measure import covering
from evaluator.host.settings import JudgeSettings
from problems import registry
from problems.spec.schema import SizeName


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=SizeName, default=SizeName.TINY, choices=list(SizeName))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--judgements", type=int, default=5)
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="default: every problem")
    options = parser.parse_args()
    print(f"{'problem':46} {'regimes':>7} {'pairs':>5} {'calls':>5} {'worst':>6} {'all':>6}")
    for problem in [registry.get(slug) for slug in options.slugs] or registry.problems():
        regimes = problem.regimes_at(options.size, options.ranks)
        every, random = covering.pairs(regimes), SystemRandom()
        count = max(JudgeSettings.joined_regimes, 2 * len(regimes))
        drawn = [covering.covering(regimes, count, random) for _ in range(options.judgements)]
        met = [
            every & {frozenset((one.name, other.name)) for call in calls for one, other in combinations(call, 2)}
            for calls in drawn
        ]
        shares = [min(map(len, met)) / max(1, len(every)), len(set().union(*met)) / max(1, len(every))]
        calls = max(map(len, drawn))
        print(f"{problem.slug:46} {len(regimes):7} {len(every):5} {calls:5} {shares[0]:6.0%} {shares[1]:6.0%}")


if __name__ == "__main__":
    main()
