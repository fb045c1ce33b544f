"""Calls one after the other between one GO and one answer."""

import dataclasses
from pathlib import Path

import pytest

from evaluator.contract import Mode, Verdict
from evaluator.host import Judge
from evaluator.host.measure.schedule import burst_calls
from evaluator.judging import timing
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import request_for, request_for_text

WRONG_IN_A_BURST = """
import sys

import torch.distributed as dist

_shim = sys.modules["evaluator.arena.rank.shim"]
_read_call = _shim.read_call
_read, _called, _together = 0, 0, 1


def _counted(*arguments, **places):
    global _read
    _read += 1
    return _read_call(*arguments, **places)


_shim.read_call = _counted


def solution(tensor):
    global _called, _together
    if _together <= 1:
        _together = _read - _called
        is_first = True
    else:
        _together -= 1
        is_first = False
    _called += 1
    out = tensor.clone()
    if _together == 1 and is_first:
        dist.all_reduce(out)
    return out
"""


def test_a_timed_series_has_long_and_single_bursts_on_contents_of_their_own(judge: Judge) -> None:
    report = judge.evaluate(request_for("correct", mode=Mode.BENCHMARK))
    assert report.verdict is Verdict.PASSED, report.message
    assert report.record is not None
    record = report.record.sizes[0]
    assert sorted(burst.calls for burst in record.bursts) == [1, 1, 1, 3, 3, 3]
    assert all(burst.answer_ns <= burst.window_ns for burst in record.bursts)
    compared = {content for burst in record.bursts for content in burst.checked}
    assert len(compared) == sum(burst.calls > 1 for burst in record.bursts)
    assert not compared & {call.content for call in record.calls}
    assert timing.burst_us(record, report.record.rules) is not None


def test_what_is_right_alone_and_wrong_in_a_burst_is_wrong(tmp_path: Path) -> None:
    with Judge(dataclasses.replace(SETTINGS, work_dir=tmp_path, blocks=4)) as judge:
        right = judge.evaluate(request_for_text(WRONG_IN_A_BURST))
        report = judge.evaluate(request_for_text(WRONG_IN_A_BURST, mode=Mode.BENCHMARK))
    assert right.verdict is Verdict.PASSED, right.message
    assert report.verdict is Verdict.WRONG_RESULT
    assert "of a burst" in report.message


@pytest.mark.parametrize(
    ("payload_bytes", "reference_s", "calls"),
    [
        (1_000_000, 100e-6, 16),
        (850_000_000, 3e-3, 2),
        (20_000_000, 40e-3, 2),
        (2_000_000_000, 40e-3, 0),
        (1_000_000, 30e-3, 3),
    ],
)
def test_a_burst_is_as_long_as_memory_and_time_allow(payload_bytes: int, reference_s: float, calls: int) -> None:
    assert burst_calls(payload_bytes, reference_s, most=16) == calls
