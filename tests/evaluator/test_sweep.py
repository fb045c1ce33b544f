"""Mode sweep: correctness and both times at every point, kept however the sweep ends."""

import msgspec
import pytest

from evaluator.contract import Mode, Stage, SweepPoint, Verdict
from evaluator.errors import Cancelled
from evaluator.host import Judge, JudgeSettings
from evaluator.host.evaluation.sweep import without_room
from evaluator.judging.points import summary
from tests.evaluator.judging_help import request_for_text

WRONG_AT_ONE = """
import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out + 9 if tensor.numel() == 8192 else out
"""
NAMES = ("tiny:bytes=4096", "tiny:bytes=16384", "tiny:bytes=65536")
REQUEST = msgspec.structs.replace(request_for_text(WRONG_AT_ONE), mode=Mode.SWEEP, sizes=NAMES)


@pytest.fixture(scope="module")
def judge():
    with Judge(JudgeSettings(profile="cpux2", blocks=2, allow_unsandboxed=True)) as judge:
        yield judge


def test_every_point_is_checked_and_timed_and_a_wrong_one_ends_itself_alone(judge: Judge):
    told: list[tuple[SweepPoint, ...]] = []

    def progress(_stage: Stage, _words: str, _fraction: float | None, points: tuple[SweepPoint, ...] = ()) -> None:
        told.extend([points] if points else [])

    report = judge.evaluate(REQUEST, progress=progress)
    assert report.verdict is Verdict.WRONG_RESULT, report.message
    assert report.timing is None
    assert [(point.size, point.value) for point in report.points] == list(zip(NAMES, (4096, 16384, 65536), strict=True))
    assert [point.verdict for point in report.points] == [Verdict.PASSED, Verdict.WRONG_RESULT, Verdict.PASSED]
    for point in (report.points[0], report.points[2]):
        assert point.reference is not None
        assert point.submission is not None
        assert min(point.reference.calls, point.submission.calls) >= 1  # a busy machine times few
        assert point.low <= point.speedup <= point.high
        assert point.bus_bytes == point.value  # of an all-reduce on two ranks
    assert report.points[1].submission is None
    assert "rank 0" in report.points[1].message
    assert told == [report.points[:count] for count in (1, 2, 3)]


def test_a_stopped_sweep_has_told_its_points(judge: Judge):
    told: list[tuple[SweepPoint, ...]] = []

    def progress(_stage: Stage, _words: str, _fraction: float | None, points: tuple[SweepPoint, ...] = ()) -> None:
        told.extend([points] if points else [])

    with pytest.raises(Cancelled):
        judge.evaluate(REQUEST, progress=progress, cancelled=lambda: bool(told))
    assert [point.size for point in told[-1]] == [NAMES[0]]
    assert judge.quarantine == ""


def test_a_point_that_no_rank_has_the_memory_for_is_refused_with_both_figures():
    assert without_room("base:bytes=1073741824", 2 * 10**9, 16 * 10**9) is None
    refusal = without_room("base:bytes=1073741824", 2 * 10**9, 10**9)
    assert refusal is not None
    assert "would hold 2.00 GB of inputs and outputs at base:bytes=1073741824, and has 1.00 GB" in refusal


def test_points_that_are_left_out_are_told_in_the_summary():
    left_out = SweepPoint(size=NAMES[0], value=4096, verdict=Verdict.UNSUPPORTED, message="too large")
    assert summary([left_out]).endswith("; 1 left out, because no rank has the memory for them")


def test_a_sweep_without_points_is_no_fault_of_its_author(judge: Judge):
    report = judge.evaluate(msgspec.structs.replace(REQUEST, sizes=()))
    assert (report.verdict, report.points) == (Verdict.JUDGE_FAILURE, ())
    assert "names no points" in report.message
