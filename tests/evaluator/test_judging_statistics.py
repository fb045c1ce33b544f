"""Scores and intervals: what anyone can recompute from a report."""

import math
import random
from dataclasses import dataclass
from statistics import median

import pytest

from evaluator.judging import statistics
from evaluator.judging.statistics import Estimate


@pytest.mark.parametrize(
    ("freedom", "value"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (7, 2.3646), (10, 2.2281), (30, 2.0423), (120, 1.9799)],
)
def test_quantiles_of_students_t_are_the_tabulated_ones(freedom, value):
    assert statistics.student_quantile(freedom) == pytest.approx(value, abs=5e-5)


def test_a_fifth_of_the_blocks_at_either_end_does_not_count():
    calm = [0.01 * step for step in range(10)]
    wild = [-90.0, -50.0, *calm[2:8], 40.0, 70.0]
    assert statistics.trimmed_mean(wild).mean == pytest.approx(statistics.trimmed_mean(calm).mean)
    assert statistics.trimmed_mean(wild).error == pytest.approx(statistics.trimmed_mean(calm).error, rel=0.5)
    assert statistics.trimmed_mean(calm).freedom == 5


def test_few_values_have_the_plain_mean_and_its_error():
    found = statistics.trimmed_mean([1.0, 2.0, 3.0])
    assert (found.mean, found.freedom) == (2.0, 2)
    assert found.error == pytest.approx(1 / math.sqrt(3))
    with pytest.raises(ValueError, match="at least two blocks"):
        statistics.trimmed_mean([1.0])


def test_blocks_that_do_not_scatter_leave_what_starts_do():
    found = statistics.estimate([[math.log(2)] * 12], reference_sd=0.03, candidate_sd=0.04)
    assert found.interval.score == pytest.approx(2.0)
    assert found.half_width == pytest.approx(1.96 * 0.05, rel=1e-4)


def test_a_second_group_that_runs_as_much_halves_the_variance_of_the_candidates_starts():
    one = statistics.estimate([[0.0] * 12], reference_sd=0.0, candidate_sd=0.04)
    two = statistics.estimate([[0.0] * 12, [0.0] * 12], reference_sd=0.0, candidate_sd=0.04)
    assert one.start_sd / two.start_sd == pytest.approx(math.sqrt(2))


def test_groups_that_differ_beyond_chance_widen_the_interval():
    first = [0.001 * step for step in range(12)]
    near, far = ([shift + 0.001 * step for step in range(3)] for shift in (0.01, 0.4))
    alike = statistics.estimate([first, near], reference_sd=0.01, candidate_sd=0.01)
    apart = statistics.estimate([first, far], reference_sd=0.01, candidate_sd=0.01)
    assert alike.half_width < 0.05
    assert apart.interval.low < 1.0 < math.exp(0.4) < apart.interval.high


def test_one_disturbed_block_of_a_short_second_group_shows_nothing():
    first = [0.001 * step for step in range(12)]
    disturbed = statistics.estimate([first, [0.005, 0.3, 0.006]], reference_sd=0.01, candidate_sd=0.01)
    assert disturbed.half_width < 0.05


def test_sizes_scatter_apart_and_start_together():
    size = Estimate(log=0.1, scatter=0.02, start_sd=0.01)
    both = statistics.combined([size, size])
    assert both.log == pytest.approx(0.1)
    assert both.scatter == pytest.approx(0.02 / math.sqrt(2))
    assert both.start_sd == pytest.approx(0.01)
    with pytest.raises(ValueError, match="at least one size"):
        statistics.combined([])


@pytest.mark.parametrize(
    ("scatter", "start_sd", "blocks", "may_end"),
    [
        (0.019, 0.0, 10, True),
        (0.019, 0.0, 9, False),
        (0.021, 0.0, 40, False),
        (0.03, 0.05, 10, True),
        (0.04, 0.05, 40, False),
    ],
    ids=["narrow", "too few blocks", "wide", "wide by its starts", "wide by both"],
)
def test_a_series_ends_when_its_interval_is_narrow_or_blocks_do_not_narrow_it(scatter, start_sd, blocks, may_end):
    found = Estimate(log=0.3, scatter=scatter, start_sd=start_sd)
    assert statistics.is_precise_enough(found, blocks=blocks) is may_end


@dataclass
class Evaluation:
    """Two equal programs, timed in blocks until the rule says enough.

    Calls scatter log-normally; in one phase of twenty all calls are longer; and every start of ranks shifts its side.
    """

    dice: random.Random
    sizes: int
    groups: int

    def run(self) -> Estimate:
        self.spread = self.dice.choice((0.003, 0.01, 0.03))
        self.start_sd = self.dice.choice((0.002, 0.01))
        self.reference = self.dice.gauss(0, self.start_sd)
        self.candidates = [self.dice.gauss(0, self.start_sd) for _ in range(self.groups)]
        return statistics.combined([self._size() for _ in range(self.sizes)])

    def _size(self) -> Estimate:
        first: list[float] = []
        while len(first) < 30:
            first.append(self._block(self.candidates[0]))
            # No rule ends a series before, and asking costs time.
            enough = len(first) >= statistics.LEAST_BLOCKS
            if enough and statistics.is_precise_enough(self._estimate([first]), blocks=len(first)):
                break
        again = [[self._block(group) for _ in range(round(len(first) / 4))] for group in self.candidates[1:]]
        return self._estimate([first, *again])

    def _estimate(self, groups: list[list[float]]) -> Estimate:
        return statistics.estimate(groups, reference_sd=self.start_sd, candidate_sd=self.start_sd)

    def _block(self, candidate: float) -> float:
        return self._phase(self.reference) - self._phase(candidate)

    def _phase(self, start: float) -> float:
        disturbance = self.dice.expovariate(10) if self.dice.random() < 0.05 else 0.0
        return start + disturbance + median(self.dice.gauss(0, self.spread) for _ in range(4))


@pytest.mark.parametrize(("sizes", "groups"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_the_interval_holds_the_truth_as_often_as_it_says(sizes, groups):
    dice = random.Random(10 * sizes + groups)
    found = [Evaluation(dice, sizes, groups).run() for _ in range(800)]
    held = sum(abs(each.log) <= each.half_width for each in found) / len(found)
    assert 0.93 <= held <= 0.99


def test_near_clones_gain_nothing_from_the_lower_end():
    dice = random.Random(7)
    lows = [Evaluation(dice, sizes=1, groups=1).run().interval.low for _ in range(1000)]
    # Ranked is the lower end: even the luckiest of a thousand clones stays within noise of the true value.
    assert max(lows) < 1.03


def test_twelve_values_give_the_third_and_the_tenth_order_statistic():
    values = [float(value) for value in (5, 3, 12, 1, 9, 7, 2, 11, 4, 10, 6, 8)]
    assert statistics.median_interval(values) == statistics.Interval(score=6.5, low=3.0, high=10.0)


@pytest.mark.parametrize("count", [6, 7, 9, 12, 20, 30])
def test_order_statistics_cover_the_true_median_in_95_percent_of_series(count):
    source = random.Random(count)
    hits = 0
    for _ in range(2000):
        found = statistics.median_interval([source.lognormvariate(0, 1) for _ in range(count)])
        hits += found.low <= 1.0 <= found.high
    assert hits / 2000 > 0.94


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_few_values_give_their_extremes(count):
    values = [float(value) for value in range(1, count + 1)]
    found = statistics.median_interval(values)
    assert (found.low, found.high) == (1.0, float(count))


def test_no_value_is_no_median():
    with pytest.raises(ValueError, match="at least one value"):
        statistics.median_interval([])


def test_sizes_are_combined_inside_a_block_by_the_geometric_mean():
    combined = statistics.combine_sizes([[1.0, 4.0, 9.0], [4.0, 4.0]])
    assert combined == pytest.approx((2.0, 4.0))


@pytest.mark.parametrize("ratios", [[], [[0.0]], [[-1.0]], [[math.inf]], [[math.nan]]])
def test_impossible_ratios_are_refused(ratios):
    with pytest.raises(ValueError, match=r"size|positive"):
        statistics.combine_sizes(ratios)


def test_a_summary_names_median_and_tails():
    summary = statistics.summarise([float(value) for value in range(1, 12)])
    assert (summary.median_us, summary.p10_us, summary.p90_us, summary.calls) == (6.0, 2.0, 10.0, 11)
