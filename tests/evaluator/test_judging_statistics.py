"""Scores and intervals: what anyone can recompute from a report."""

import math
import random

import pytest

from evaluator.judging import statistics


def test_twelve_blocks_give_the_third_and_the_tenth_order_statistic():
    blocks = [float(value) for value in (5, 3, 12, 1, 9, 7, 2, 11, 4, 10, 6, 8)]
    assert statistics.interval(blocks) == statistics.Interval(score=6.5, low=3.0, high=10.0)


@pytest.mark.parametrize("count", [6, 7, 9, 12, 20, 30])
def test_the_interval_covers_the_true_median_in_95_percent_of_series(count):
    source = random.Random(count)
    hits = 0
    for _ in range(2000):
        found = statistics.interval([source.lognormvariate(0, 1) for _ in range(count)])
        hits += found.low <= 1.0 <= found.high
    assert hits / 2000 > 0.94


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_few_blocks_give_their_extremes(count):
    blocks = [float(value) for value in range(1, count + 1)]
    found = statistics.interval(blocks)
    assert (found.low, found.high) == (1.0, float(count))


def test_no_block_is_no_score():
    with pytest.raises(ValueError, match="at least one block"):
        statistics.interval([])


def test_sizes_are_combined_inside_a_block_by_the_geometric_mean():
    combined = statistics.combine_sizes([[1.0, 4.0], [4.0, 4.0]])
    assert combined == pytest.approx((2.0, 4.0))


@pytest.mark.parametrize("ratios", [[], [[1.0], [1.0, 2.0]], [[0.0]], [[-1.0]], [[math.inf]], [[math.nan]]])
def test_impossible_ratios_are_refused(ratios):
    with pytest.raises(ValueError, match=r"block|positive"):
        statistics.combine_sizes(ratios)


def test_one_slow_block_moves_the_score_less_than_the_interval():
    calm = [1.5 + 0.01 * step for step in range(12)]
    disturbed = [*calm[:-1], 0.1]
    assert statistics.interval(disturbed).score == pytest.approx(statistics.interval(calm).score, rel=0.01)


def test_a_summary_names_median_and_tails():
    summary = statistics.summarise([float(value) for value in range(1, 12)])
    assert (summary.median_us, summary.p10_us, summary.p90_us, summary.calls) == (6.0, 2.0, 10.0, 11)


def test_near_clones_gain_nothing_in_expectation_from_the_lower_end():
    source = random.Random(7)
    lows = [statistics.interval([source.gauss(1.0, 0.05) for _ in range(12)]).low for _ in range(1000)]
    # Ranked is the lower end: even the luckiest of a thousand clones stays within noise of the true value.
    assert max(lows) < 1.05
