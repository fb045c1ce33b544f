"""The reference before a submission was revealed, and beside it."""

import msgspec
import pytest

from evaluator.contract import Mode, ReferenceCall, SizeRecord, Verdict
from evaluator.host import Judge
from evaluator.judging.reference_drift import alarms
from tests.evaluator.judging_help import request_for


def record(*, alone_us: list[int], later_us: list[int]) -> SizeRecord:
    later = tuple(ReferenceCall(time_ns=us * 1000, claimed_ns=0) for us in later_us)
    return SizeRecord(
        size="base",
        payload_bytes=1,
        floor_us=None,
        calls=(),
        reference=(later,),
        reference_alone_ns=tuple(us * 1000 for us in alone_us),
    )


STEADY = [400, 402, 398, 401, 400, 405, 399, 400]


@pytest.mark.parametrize(
    ("alone", "later", "is_alarm"),
    [
        (STEADY, STEADY, False),
        (STEADY, [520, 530, 510, 515, 540, 522], True),
        (STEADY, [440, 441, 442, 439], False),  # a tenth is what hosts vary by
        (STEADY, [400, 400, 900, 900, 900, 400], False),  # the middle halves are not apart
        ([20] * 8, [30] * 8, False),  # below the resolution
        ([], STEADY, False),
        (STEADY, [900, 900], False),
    ],
)
def test_later_legs_that_are_slower_are_an_alarm(alone: list[int], later: list[int], is_alarm: bool) -> None:  # noqa: FBT001
    assert bool(alarms([record(alone_us=alone, later_us=later)])) is is_alarm


def test_the_alarm_says_how_much() -> None:
    (sentence,) = alarms([record(alone_us=[400] * 8, later_us=[600] * 8)])
    assert "600 us" in sentence
    assert "1.50 times the 400 us" in sentence


def test_a_ranked_judgement_times_the_reference_before_it_reveals_the_submission(judge: Judge) -> None:
    stages: list[str] = []
    report = judge.evaluate(
        msgspec.structs.replace(request_for("correct"), mode=Mode.RANKED),
        progress=lambda _stage, detail, _fraction: stages.append(detail),
    )
    assert report.verdict is Verdict.PASSED, report.message
    assert stages.index("tiny: the reference alone") < stages.index("importing solution.py")
    assert report.record is not None
    assert all(len(size.reference_alone_ns) >= 4 for size in report.record.sizes)
