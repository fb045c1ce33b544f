"""Floors: the largest of three times, named by its ceiling."""

import pytest

from evaluator.hardware import profiles
from evaluator.judging.floors import Bound, floor
from problems.spec.schema import Cost

H200 = profiles.get("h200x8").peaks
CACHED = 2 * H200.l2_bytes


@pytest.mark.parametrize(
    ("cost", "bound", "us"),
    [
        (Cost(flops={"matmul": 989.5e9}, memory_bytes=0, wire_bytes=0, reference_wire_bytes=0), Bound.ARITHMETIC, 1000),
        (Cost(flops={"fp32": 67e9}, memory_bytes=0, wire_bytes=0, reference_wire_bytes=0), Bound.ARITHMETIC, 1000),
        (Cost(flops={}, memory_bytes=CACHED + 4.8e9, wire_bytes=0, reference_wire_bytes=0), Bound.MEMORY, 1000),
        (Cost(flops={}, memory_bytes=4.8e9, wire_bytes=450e7, reference_wire_bytes=450e7), Bound.WIRE, 10_000),
    ],
)
def test_the_slowest_ceiling_is_the_floor(cost, bound, us):
    found = floor(cost, H200)
    assert (found.bound, found.us) == (bound, pytest.approx(us))


def test_the_sum_is_the_time_without_overlap():
    memory = CACHED + 4.8e9
    cost = Cost(flops={"matmul": 989.5e9}, memory_bytes=memory, wire_bytes=450e6, reference_wire_bytes=450e6)
    assert floor(cost, H200).sum_us == pytest.approx(3000)


def test_what_the_cache_holds_before_and_after_a_call_need_not_cross_to_memory():
    cost = Cost(flops={}, memory_bytes=CACHED, wire_bytes=45e6, reference_wire_bytes=45e6)
    found = floor(cost, H200)
    assert (found.bound, found.us, found.terms_us[Bound.MEMORY]) == (Bound.WIRE, pytest.approx(100), 0.0)


def test_a_call_shorter_than_an_empty_collective_is_bound_by_latency():
    cost = Cost(flops={}, memory_bytes=CACHED + 4.8e6, wire_bytes=0, reference_wire_bytes=0)
    found = floor(cost, H200, latency_us=12.0)
    assert (found.bound, found.us) == (Bound.LATENCY, pytest.approx(1.0))


def test_fp8_products_are_counted_at_their_own_rate():
    cost = Cost(flops={"fp8": 1979e9}, memory_bytes=0, wire_bytes=0, reference_wire_bytes=0)
    assert floor(cost, H200).us == pytest.approx(1000)
