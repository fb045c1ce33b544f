"""GPUs that heat or power slowed: before the submission ran they send it back, later they are an alarm."""

import msgspec
import pytest

from evaluator.contract import GpuReading, SizeRecord, Verdict
from evaluator.hardware import profiles
from evaluator.judging import throttling, timing
from tests.evaluator.timed_records import RULES, series


def slowed(moment: str, *reasons: str) -> GpuReading:
    return GpuReading(gpu=1, moment=moment, sm_mhz=1200, memory_mhz=3201, watts=412.0, celsius=88, throttled_by=reasons)


def with_readings(*readings: GpuReading) -> SizeRecord:
    return msgspec.structs.replace(series(), gpus=readings)


@pytest.mark.parametrize("moment", ["alone", "revealing"])
def test_a_gpu_that_was_slow_before_the_submission_ran_sends_it_back(moment):
    found = throttling.before_the_submission([slowed(moment, "sw_power_cap", "hw_thermal_slowdown")], RULES)
    assert found.verdict is Verdict.BASELINE_UNSTABLE
    assert "GPU 1 was slowed (hw_thermal_slowdown: 1200 MHz, 88 C, 412 W) before the submission ran" in found.message


@pytest.mark.parametrize("moment", ["before", "block 3", "after"])
def test_a_gpu_that_became_slow_beside_the_submission_is_an_alarm_and_never_another_try(moment):
    """A submission can heat a GPU on purpose: then it keeps the score that it has, and a person looks."""
    record = with_readings(slowed(moment, "hw_slowdown"))
    assert throttling.before_the_submission(record.gpus, RULES) is None
    assert timing.conclude([record], RULES)[1] == []
    (alarm,) = throttling.alarms([record], RULES)
    assert "tiny, worker group 1: GPU 1 was slowed (hw_slowdown: 1200 MHz" in alarm


def test_a_gpu_is_named_once_a_size():
    record = with_readings(slowed("block 1", "hw_slowdown"), slowed("block 3", "hw_slowdown"))
    (alarm,) = throttling.alarms([record], RULES)
    assert alarm.endswith("in block 1")


@pytest.mark.parametrize("reasons", [("sw_power_cap",), ("gpu_idle", "applications_clocks_setting"), ()])
def test_normal_reasons_for_low_clocks_mean_nothing(reasons):
    readings = [slowed("alone", *reasons), slowed("block 1", *reasons)]
    assert throttling.before_the_submission(readings, RULES) is None
    assert throttling.alarms([with_readings(*readings)], RULES) == ()


def test_slow_gpus_do_not_matter_on_practice_boards():
    rules = profiles.get("cpux2").timing_rules()
    readings = (slowed("alone", "hw_slowdown"), slowed("after", "hw_slowdown"))
    assert throttling.before_the_submission(readings, rules) is None
    assert throttling.alarms([with_readings(*readings)], rules) == ()
