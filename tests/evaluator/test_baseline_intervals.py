"""The interval of a baseline holds what differs between measurements, also where its own calls do not differ at all."""

import pytest

from evaluator.measuring.baselines import interval


def test_calls_that_do_not_differ_still_have_the_interval_of_measurements():
    low, high = interval([1000.0] * 20, least_us=2.0)
    assert (low, high) == pytest.approx((1000 - 22.4, 1000 + 22.4), abs=0.1)  # 1.96 times 3 us and 1.1 %, added


def test_an_interval_reaches_no_further_down_than_the_clock():
    low, high = interval([3.0] * 20, least_us=2.0)
    assert (low, high) == pytest.approx((2.0, 8.9), abs=0.1)


def test_calls_that_differ_widen_it():
    narrow, wide = (interval([1000.0 - each, 1000.0, 1000.0 + each] * 7, least_us=2.0) for each in (0, 200))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
