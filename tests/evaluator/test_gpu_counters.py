"""The arithmetic of GPU performance counters, and a node without them. GPUs themselves: `test_gpu_reference.py`."""

import math

import pytest

from evaluator.host.machine.gpu_counters import Activity, GpuCounters

MIB = 1024**2


def test_rates_become_bytes_of_the_time_between() -> None:
    seen = Activity.over(0.5, sent=2.0, received=56_786.215, dram_percent=84.79)
    assert seen == Activity(pcie_sent_bytes=MIB, pcie_received_bytes=math.floor(28_393.1075 * MIB), dram_percent=85)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, -1.0, 1e300])
@pytest.mark.parametrize("name", ["sent", "received", "dram_percent"])
def test_a_rate_that_is_none_leaves_all_unread(name: str, odd: float) -> None:
    assert Activity.over(0.02, **({"sent": 1.0, "received": 1.0, "dram_percent": 1.0} | {name: odd})) is None


@pytest.mark.parametrize("seconds", [-0.1, math.nan, math.inf])
def test_a_time_that_is_none_leaves_all_unread(seconds: float) -> None:
    assert Activity.over(seconds, sent=1.0, received=1.0, dram_percent=1.0) is None


@pytest.mark.parametrize("gpus", [(), (0,), (0, 1)])
def test_a_node_without_counters_reads_nothing_and_says_so_by_empty_answers(gpus: tuple[int, ...]) -> None:
    """Without GPUs asked for, and on a machine whose driver or library is missing."""
    counters = GpuCounters(gpus)
    try:
        if counters.now() is not None:
            pytest.skip("this machine has GPUs with counters")
        assert counters.since(None) == {}
    finally:
        counters.close()
    assert counters.now() is None
    counters.close()
