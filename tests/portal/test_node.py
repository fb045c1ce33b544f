"""What a node's slot refuses and survives without being blamed on the author."""

import pytest

from evaluator.contract import Assignment, Backend, EvaluationRequest, Mode, SlotState, Verdict
from evaluator.errors import EvaluatorError
from evaluator.node.slots import Slot
from problems import registry
from tests.portal.factories import bundle


def an_assignment(**changes):
    fields = {
        "evaluation_id": "00000000-0000-0000-0000-000000000001",
        "problem": "allreduce",
        "revision": registry.revision("allreduce"),
        "source": bundle(),
        "backend": Backend.PYTORCH,
        "profile": "cpux2",
        "mode": Mode.CHECK,
    }
    return Assignment(lease="l", slot=0, request=EvaluationRequest(**(fields | changes)))


def cannot_start(profile):
    raise EvaluatorError(f"no ranks for {profile} on this machine")


def a_slot():
    return Slot(0, "cpux2", make_judge=cannot_start, changed=lambda: None)


def judged(slot, assignment):
    return slot.judge(assignment, progress=lambda *_: None, cancelled=lambda: False).report


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"revision": "0123456789abcdef"}, ("0123456789abcdef", registry.revision("allreduce"), "operator")),
        ({"problem": "no_such_problem"}, ("no_such_problem",)),
        ({"profile": "cpux4"}, ("cpux2", "cpux4")),
    ],
)
def test_what_the_slot_cannot_judge_is_a_failure_of_ours_that_says_why(changes, words):
    assignment = an_assignment(**changes)
    report = judged(a_slot(), assignment)
    assert report.verdict is Verdict.JUDGE_FAILURE
    assert (report.problem, report.revision) == (assignment.request.problem, assignment.request.revision)
    for word in words:
        assert word in report.message


def test_a_slot_whose_judge_does_not_start_takes_no_more_work_and_says_why():
    slot = a_slot()
    assert slot.status.state is SlotState.STARTING
    slot.prepare()
    assert slot.status.state is SlotState.QUARANTINED
    assert slot.status.note == "no ranks for cpux2 on this machine"
    report = judged(slot, an_assignment())
    assert report.verdict is Verdict.JUDGE_FAILURE
    assert "no ranks for cpux2" in report.message
    assert slot.status.evaluation_id is None
