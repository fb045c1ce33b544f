"""Whether two runs differ: paired over the problems that both were measured on, as pure functions.

Problems differ in difficulty far more than models do. So two runs are compared problem by problem, where their
intervals side by side would hide most differences.

McNemar's exact test (1947) looks at the problems that one run solves and the other does not. If the runs are equally
good, each of these is a fair coin. The bootstrap (Efron, 1979) draws as many problems again, with replacement, and says
between which values the difference of correct@1 lies in 95 % of the draws.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from portal.runs.figures import Sample, Samples

LEVEL = 0.05
"""Below this probability runs count as different."""
DRAWS = 2000


@cache
def mcnemar(only_a: int, only_b: int) -> float:
    """The two-sided exact p-value of `only_a` against `only_b` problems that one of two runs solves alone."""
    count = only_a + only_b
    tail = sum(math.comb(count, lower) for lower in range(min(only_a, only_b) + 1))
    return min(1.0, math.ldexp(tail, 1 - count))


def bootstrap(differences: Sequence[float], *, draws: int = DRAWS, seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile interval of the mean of `differences`, one per problem; (0, 0) of none."""
    if not differences:
        return (0.0, 0.0)
    draw = random.Random(seed)  # noqa: S311 - the same page twice shows the same interval
    means = sorted(math.fsum(draw.choices(differences, k=len(differences))) / len(differences) for _ in range(draws))
    return means[round(0.025 * (draws - 1))], means[round(0.975 * (draws - 1))]


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Two runs over the `problems` that both were measured on.

    `only_a` and `only_b` count problems whose first sample only that run solves, `p_value` is McNemar's of them.
    `difference` is correct@1 of A less that of B, between `low` and `high`.
    """

    problems: int
    only_a: int
    only_b: int
    p_value: float
    difference: float
    low: float
    high: float

    @property
    def is_distinguishable(self) -> bool:
        """Whether so uneven a result would be rare between runs that are equally good."""
        return self.p_value < LEVEL


def paired(a: Samples, b: Samples, *, able: frozenset[str]) -> Paired:
    """Compare two runs over `able`, the problems that the profiles of both can judge.

    A problem without a program counts as not solved. One that a run's judge or profile could not measure is left out.
    """
    shares_a, shares_b = _shares(a, able), _shares(b, able)
    common = sorted(shares_a.keys() & shares_b.keys())
    differences = [shares_a[slug][1] - shares_b[slug][1] for slug in common]
    only_a = sum(shares_a[slug][0] and not shares_b[slug][0] for slug in common)
    only_b = sum(shares_b[slug][0] and not shares_a[slug][0] for slug in common)
    low, high = bootstrap(differences)
    return Paired(
        problems=len(common),
        only_a=only_a,
        only_b=only_b,
        p_value=mcnemar(only_a, only_b),
        difference=math.fsum(differences) / len(common) if common else 0.0,
        low=low,
        high=high,
    )


def _shares(samples: Samples, able: frozenset[str]) -> dict[str, tuple[bool, float]]:
    """Of every measured problem whether the first sample solves it, and which share of the samples do."""
    return {slug: found for slug in able if (found := _share(samples.get(slug, ()))) is not None}


def _share(samples: Sequence[Sample]) -> tuple[bool, float] | None:
    known = [sample.is_correct for sample in samples if not sample.is_open]
    if not known:
        return None if samples else (False, 0.0)
    return known[0], sum(known) / len(known)


def places(runs: Sequence[tuple[Samples, frozenset[str]]]) -> list[int]:
    """The places of runs that stand in order, the best first: one more than how many are distinguishably better.

    Runs that cannot be told apart from the best share the first place.
    """
    known = [_shares(samples, able) for samples, able in runs]
    found = [(frozenset(shares), frozenset(slug for slug in shares if shares[slug][0])) for shares in known]
    return list(accumulate((1 + sum(_is_better(other, than=own) for other in found) for own in found), max))


def _is_better(other: tuple[frozenset[str], frozenset[str]], *, than: tuple[frozenset[str], frozenset[str]]) -> bool:
    """Whether a run is distinguishably better; both are the problems measured, and those solved."""
    (measured, solved), (own_measured, own_solved) = other, than
    ahead, behind = len((solved - own_solved) & own_measured), len((own_solved - solved) & measured)
    return ahead > behind and mcnemar(ahead, behind) < LEVEL
