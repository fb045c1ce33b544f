"""Comparing two runs: how often the tests say what is not so, by simulation and by counting."""

import math
import random
from statistics import fmean

import pytest

from portal.runs import figures
from portal.runs.figures import Sample

PROBLEMS = 87
SLUGS = frozenset(map(str, range(PROBLEMS)))


def run(draw, chances):
    """A run with one sample per problem, each right with its chance."""
    return {
        str(place): (Sample(verdict="PASSED" if draw.random() < chance else "WRONG_RESULT"),)
        for place, chance in enumerate(chances)
    }


def of(verdicts):
    return {str(place): (Sample(verdict=verdict),) for place, verdict in enumerate(verdicts)}


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 0), (1, 0), (5, 0), (6, 0), (3, 4), (13, 24), (40, 87)])
def test_mcnemar_is_the_binomial_counted_out(only_a, only_b):
    count, least = only_a + only_b, min(only_a, only_b)
    as_uneven = sum(math.comb(count, k) for k in range(count + 1) if min(k, count - k) <= least)
    assert figures.mcnemar(only_a, only_b) == figures.mcnemar(only_b, only_a) == pytest.approx(as_uneven / 2**count)


def test_equally_good_runs_are_rarely_told_apart_and_very_different_ones_nearly_always():
    draw = random.Random(43)
    chances = [draw.betavariate(0.5, 1.0) for _ in range(PROBLEMS)]
    better = [min(1.0, chance + 0.35) for chance in chances]

    def told_apart(one, other):
        found = (_distinguishable(run(draw, one), run(draw, other)) for _ in range(1000))
        return sum(found) / 1000

    assert told_apart(chances, chances) <= figures.LEVEL
    assert told_apart(chances, better) > 0.9


def _distinguishable(a, b):
    only_a = sum(a[slug][0].is_correct > b[slug][0].is_correct for slug in SLUGS)
    only_b = sum(b[slug][0].is_correct > a[slug][0].is_correct for slug in SLUGS)
    return figures.mcnemar(only_a, only_b) < figures.LEVEL


def test_the_bootstrap_covers_the_difference():
    draw = random.Random(43)
    covered = []
    for _ in range(400):
        # Problems are drawn, too: the interval speaks of problems of the same kind. On average A is better by 0.1.
        chances = [draw.uniform(0.0, 0.9) for _ in range(PROBLEMS)]
        differences = [(draw.random() < chance + 0.1) - (draw.random() < chance) for chance in chances]
        low, high = figures.bootstrap(differences, draws=400, seed=draw.random())
        covered.append(low <= 0.1 <= high)
    assert 0.91 <= fmean(covered) <= 0.98


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.9])
def test_wilsons_interval_covers_the_share(share):
    def chance(solved):
        return math.comb(PROBLEMS, solved) * share**solved * (1 - share) ** (PROBLEMS - solved)

    ends = [figures.wilson(solved / PROBLEMS, count=PROBLEMS) for solved in range(PROBLEMS + 1)]
    covered = sum(chance(solved) for solved, (low, high) in enumerate(ends) if low <= share <= high)
    assert 0.92 <= covered <= 0.99


def test_only_problems_that_both_were_measured_on_count():
    a = of(["PASSED", "PASSED", "PASSED", "JUDGE_ERROR", "WRONG_RESULT"])
    b = of(["PASSED", "DEADLOCK", "UNSUPPORTED", "PASSED"])  # no program for the last: not solved
    found = figures.paired(a, b, able=frozenset("01234"))
    assert (found.problems, found.only_a, found.only_b) == (3, 1, 0)
    assert found.difference == pytest.approx(1 / 3)
    assert found.low <= found.difference <= found.high
    assert not found.is_distinguishable


def test_runs_that_cannot_be_told_apart_share_a_place():
    best, close = ["PASSED"] * 20 + ["CRASHED"] * 10, ["PASSED"] * 17 + ["CRASHED"] * 13
    poor = ["PASSED"] * 3 + ["CRASHED"] * 27
    able = frozenset(map(str, range(30)))
    assert figures.places([(of(each), able) for each in (best, close, poor)]) == [1, 1, 3]
