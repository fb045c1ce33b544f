"""The arithmetic of GPU counters, and a node without them. GPUs themselves: `test_slot_watch.py`."""

import math

import pytest

from evaluator.contract import GpuReading
from evaluator.host.machine.slot_watch import SlotWatch, counted, share_in_percent


@pytest.mark.parametrize(
    ("first", "last", "between"), [(5, 5, 0), (5, 1_000_000, 999_995), (2**32 - 10, 90, 100), (2**32 - 1, 0, 1)]
)
def test_a_counter_of_32_bits_counts_on_where_it_began_again(first: int, last: int, between: int) -> None:
    assert counted(first, last) == between


@pytest.mark.parametrize(("said", "percent"), [(0.0, 0), (68.1, 68), (100.4, 100)])
def test_a_share_of_the_bandwidth_is_rounded(said: float, percent: int) -> None:
    assert share_in_percent(said) == percent


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, -1.0, 1e300])
def test_a_share_that_is_none_is_left_unread(odd: float) -> None:
    assert share_in_percent(odd) is None


@pytest.mark.parametrize("gpus", [(), (0,), (0, 1)])
def test_a_node_without_counters_reads_nothing_and_says_so_by_empty_answers(gpus: tuple[int, ...]) -> None:
    """Without GPUs asked for, and on a machine whose driver or library is missing."""
    into: list[GpuReading] = []
    with SlotWatch(gpus) as watch:
        with watch.around("before", calls=1, into=into):
            pass
        if into:
            pytest.skip("this machine has GPUs with counters")
        assert watch.read("after") == ()
    assert watch.read("closed") == ()
    watch.close()
