"""The estimators, compared with counting every way to draw k samples."""

import math
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluator.contract import is_faster
from portal.runs import figures
from portal.runs.figures import Sample

SAMPLES = st.lists(
    st.builds(
        Sample,
        verdict=st.sampled_from(["PASSED", "WRONG_RESULT", "UNSUPPORTED", "JUDGE_FAILURE", ""]),
        score=st.sampled_from([0.5, 1.0, 1.5, 3.0]),
        low=st.sampled_from([None, 0.4, 1.0, 1.3, 2.9]),
    ),
    min_size=1,
    max_size=7,
)


# A busy machine draws slowly; that says nothing of what is drawn.
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def by_counting(samples, k, is_good):
    """The share of ways to draw `k` of the samples, missing ones being failures, that hold a good one."""
    goods = [is_good(sample) for sample in samples] + [False] * max(0, k - len(samples))
    draws = list(combinations(goods, k))
    return sum(map(any, draws)) / len(draws)


@relaxed
@given(problems=st.lists(SAMPLES, max_size=4), k=st.integers(1, 7), without=st.integers(0, 3), p=st.floats(0, 4))
def test_correct_and_fast_at_k_are_what_counting_every_draw_gives(problems, k, without, p):
    samples = {str(number): found for number, found in enumerate(problems)}
    total = len(problems) + without
    for estimate, is_good in (
        (figures.fast_at(samples, None, k=k, problems=total), lambda sample: sample.verdict == "PASSED"),
        (
            figures.fast_at(samples, p, k=k, problems=total),
            lambda sample: sample.verdict == "PASSED" and sample.low is not None and sample.low > p,
        ),
    ):
        expected = sum(by_counting(found, k, is_good) for found in problems) / total if total else 0
        assert estimate.value == pytest.approx(expected, abs=1e-12)
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


@relaxed
@given(n=st.integers(1, 2000), data=st.data())
def test_the_product_form_is_the_binomials_for_large_numbers_too(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    exact = 1 - math.comb(n - c, k) / math.comb(n, k)
    assert figures.chance_of_one(samples=n, successes=c, k=k) == pytest.approx(exact, abs=1e-9)


def test_the_interval_is_wilsons():
    # Its ends are the proportions from which what was seen lies exactly 1.96 standard deviations away.
    seen, count = 28 / 87, 87
    for end in figures.wilson(seen, count=count):
        assert abs(seen - end) / math.sqrt(end * (1 - end) / count) == pytest.approx(1.959963984540054)
    assert figures.wilson(0.0, count=87)[0] == 0.0
    assert figures.wilson(1.0, count=87)[1] == 1.0


def test_samples_that_were_not_measured_are_left_out_and_problems_without_another():
    samples = {
        "a": [Sample(verdict="UNSUPPORTED"), Sample(verdict="JUDGE_FAILURE")],
        "b": [Sample(verdict="UNSUPPORTED"), Sample(verdict="PASSED")],
        "c": [Sample(verdict="", is_pending=True)],
        "d": [Sample(verdict="")],
    }
    assert figures.measured(samples) == {"b": [Sample(verdict="PASSED")], "d": [Sample(verdict="")]}


@relaxed
@given(problems=st.lists(SAMPLES, max_size=4), k=st.integers(1, 7), unable=st.integers(0, 2), p=st.floats(0, 4))
def test_bounds_are_what_becomes_of_open_samples_at_worst_and_at_best(problems, k, unable, p):
    total = len(problems) + unable + 1
    for at in (None, p):
        outcomes = []
        for open_becomes in (Sample(verdict="CRASHED"), Sample(verdict="PASSED", low=5.0)):
            samples = {str(n): [open_becomes if one.is_open else one for one in row] for n, row in enumerate(problems)}
            if open_becomes.is_correct:
                samples |= {f"unable {n}": [open_becomes] for n in range(unable)}
            outcomes.append(figures.fast_at(samples, at, k=k, problems=total).value)
        asked = figures.bounds({str(n): row for n, row in enumerate(problems)}, at, k=k, problems=total, unable=unable)
        assert (asked.low, asked.high) == pytest.approx(tuple(outcomes))


def test_the_geometric_mean_is_over_the_best_sample_of_each_solved_problem():
    samples = {
        "a": [Sample(verdict="PASSED", score=2.0), Sample(verdict="PASSED", score=1.0)],
        "b": [Sample(verdict="PASSED", score=0.5), Sample(verdict="CRASHED")],
        "c": [Sample(verdict="WRONG_RESULT")],
    }
    assert figures.geometric_mean(list(figures.best_scores(samples).values())) == pytest.approx(1.0)
    assert figures.geometric_mean([]) is None


def test_faster_needs_the_whole_interval():
    assert [is_faster(low) for low in (None, 0.999, 1.0, 1.001)] == [False, False, False, True]
    assert is_faster(1.5, than=1.4)
    assert not Sample(verdict="PASSED", score=1.009, low=0.666).is_fast(1.0)
    assert not Sample(verdict="WRONG_RESULT", score=3.0, low=2.0).is_fast(1.0)


@relaxed
@given(problems=st.lists(SAMPLES, max_size=4), without=st.integers(1, 3), p=st.floats(0, 4))
def test_the_curve_of_fast_p_is_fast_p_everywhere(problems, without, p):
    samples = {str(number): found for number, found in enumerate(problems)}
    total = len(problems) + without
    points = figures.fast_curve(samples, problems=total)
    assert points[0][0] == 0.0
    assert [at for at, _ in points] == sorted({at for at, _ in points})
    *_, (_, drawn) = (point for point in points if point[0] <= p)
    assert drawn == pytest.approx(figures.fast_at(samples, p, k=1, problems=total).value, abs=1e-12)


def test_a_speedup_barely_above_one_is_drawn_as_fast_to_its_own_interval_and_no_further():
    samples = {
        "a": [Sample(verdict="PASSED", score=1.012, low=1.009)],
        "b": [Sample(verdict="PASSED", score=2, low=1.5)],
    }
    assert figures.fast_curve(samples, problems=4) == ((0.0, 0.5), (1.009, 0.25), (1.5, 0.0))


def test_samples_without_a_verdict_are_counted_apart():
    pending, checked, passed = Sample(verdict="", is_pending=True), Sample(verdict=""), Sample(verdict="PASSED")
    bare = figures.without_verdict({"a": [pending, passed], "b": [checked]}, k=2, problems=4)
    assert (bare.pending, bare.unranked, bare.missing) == (1, 1, 1 + 2 * 2)


@relaxed
@given(found=SAMPLES, k=st.integers(1, 4))
def test_correct_at_k_is_the_mean_of_best_of_k_over_the_order_of_samples(found, k):
    k = min(k, len(found))
    orders = [figures.best_of({"a": order}, k=k, problems=1).value for order in combinations(found, k)]
    assert figures.fast_at({"a": found}, None, k=k, problems=1).value == pytest.approx(sum(orders) / len(orders))


def test_by_point_estimate_more_is_faster():
    samples = {
        "a": [Sample(verdict="PASSED", score=1.009, low=0.666)],
        "b": [Sample(verdict="PASSED", score=2.0, low=1.5)],
        "c": [Sample(verdict="WRONG_RESULT", score=3.0, low=2.0)],
    }
    assert (figures.faster(samples), figures.faster(samples, by_point=True)) == (1, 2)
    assert figures.fast_at(samples, 1.0, k=1, problems=4, by_point=True).value == 0.5
    assert figures.fast_curve(samples, problems=4, by_point=True) == ((0.0, 0.5), (1.009, 0.25), (2.0, 0.0))
