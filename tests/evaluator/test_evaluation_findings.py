"""How findings and errors of the judge decide together, without any ranks."""

import pytest

from evaluator.contract import ErrorMap, ErrorPattern, Finding, SizeMemory, Verdict
from evaluator.errors import Cancelled, EvaluatorError, SubmissionFault
from evaluator.host.evaluation import report
from evaluator.host.evaluation.evidence import Findings, Outcomes, disagreement
from evaluator.host.evaluation.failures import JudgeOutOfMemory, without_the_submission
from evaluator.host.measure.evidence import Ended
from evaluator.host.ranks.trusted_client import OutOfDeviceMemory

WRONG = Finding(verdict=Verdict.WRONG_RESULT, message="rank 1, call 1: 3 elements are wrong", rank=1, size="tiny")
OUR_ERROR = EvaluatorError("oracle rank 1 has gone\nTraceback (most recent call last):")


@pytest.fixture
def findings() -> Findings:
    return Findings("allreduce")


def verdicts(findings: Findings) -> list[Verdict]:
    return [finding.verdict for finding in findings.all]


def test_without_any_finding_the_verdict_is_an_error_of_the_judge(findings: Findings) -> None:
    assert findings.decided.verdict is Verdict.JUDGE_ERROR


def test_what_an_exception_says_at_length_fits_into_a_report(findings: Findings) -> None:
    said = Finding(verdict=Verdict.RUNTIME_ERROR, message="ValueError: " + "x" * 16_000)
    findings.add([said] * 2000)
    assert Finding.from_json(findings.decided.to_json()).message.startswith("ValueError: xxx")
    assert (len(findings.all), findings.left_out) == (500, 1500)


def test_a_cancelled_evaluation_has_no_error_to_prove_and_is_examined_like_one_that_ended_badly(
    findings: Findings,
) -> None:
    assert not findings.awaits_proof
    assert findings.ended_badly
    assert not findings.ended_well


def test_an_error_of_the_judge_decides_where_nothing_was_found_and_the_author_reads_no_traceback(
    findings: Findings,
) -> None:
    findings.add_error(OUR_ERROR, is_nodes=False)
    assert verdicts(findings) == [Verdict.JUDGE_ERROR]
    assert "oracle" not in findings.decided.message
    assert findings.awaits_proof
    assert findings.ended_badly


def test_it_becomes_the_nodes_once_the_node_has_failed_without_the_submission(findings: Findings) -> None:
    findings.add_error(OUR_ERROR, is_nodes=False)
    findings.add_error(OUR_ERROR, is_nodes=True)
    assert verdicts(findings) == [Verdict.JUDGE_FAILURE]
    assert findings.decided.message == "oracle rank 1 has gone"
    assert not findings.awaits_proof


@pytest.mark.parametrize("is_nodes", [True, False])
def test_a_verdict_stays_and_the_error_stands_beside_it(findings: Findings, *, is_nodes: bool) -> None:
    findings.add([WRONG])
    findings.add_error(OUR_ERROR, is_nodes=is_nodes)
    assert findings.decided is WRONG
    assert verdicts(findings) == [Verdict.WRONG_RESULT, Verdict.JUDGE_FAILURE if is_nodes else Verdict.JUDGE_ERROR]
    assert not findings.awaits_proof


def test_a_lack_of_the_judges_memory_is_not_charged_and_names_both_figures(findings: Findings) -> None:
    memory = SizeMemory(total_bytes=140 * 10**9, judge_bytes=80 * 10**9, submission_bytes=60 * 10**9)
    findings.add_error(JudgeOutOfMemory(OutOfDeviceMemory("no room"), memory=memory), is_nodes=False)
    assert verdicts(findings) == [Verdict.UNSUPPORTED]
    assert "comparisons of allreduce beside this submission" in findings.decided.message
    assert "the submission used 60.0 GB of a GPU's 140.0 GB, the judge 80.0 GB" in findings.decided.message
    assert findings.awaits_proof
    findings.add_error(EvaluatorError("no room without it either"), is_nodes=True)
    assert verdicts(findings) == [Verdict.JUDGE_FAILURE]


def test_where_the_figures_are_unknown_it_names_none(findings: Findings) -> None:
    findings.add_error(OutOfDeviceMemory("no room"), is_nodes=False)
    assert findings.decided.message.endswith("Without it the judge has enough")


def test_only_the_first_maps_of_wrong_elements_are_kept(findings: Findings) -> None:
    drawn = ErrorMap(shape=(2, 2), counts=((1,),), largest_at=(0, 0), pattern=next(iter(ErrorPattern)), sentence="")
    findings.add([Finding(verdict=Verdict.WRONG_RESULT, message="wrong", error_map=drawn)] * 20)
    assert [finding.error_map is not None for finding in findings.all] == [True] * 16 + [False] * 4
    assert list(report._notes(Outcomes(), findings)) == [  # noqa: SLF001 - a whole report needs a judgement
        "4 wrong outputs lack a map: at most 16 get one, 8 of a rank in a call"
    ]


def test_what_decides_before_the_ranks_start_ends_the_evaluation(findings: Findings) -> None:
    findings.add_before_ranks([Finding(verdict=Verdict.WRONG_RESULT, message="a hint about the source")])
    with pytest.raises(Ended):
        findings.add_before_ranks([Finding(verdict=Verdict.COMPILE_ERROR, message="expected ';'")])
    assert findings.decided.verdict is Verdict.COMPILE_ERROR


def test_a_fault_of_the_submission_is_a_finding(findings: Findings) -> None:
    findings.add_fault(SubmissionFault(Verdict.LIMIT_EXCEEDED, "the source could not be read"))
    assert (findings.decided.verdict, findings.decided.message) == (
        Verdict.LIMIT_EXCEEDED,
        "the source could not be read",
    )


def test_a_second_group_that_ends_otherwise_makes_a_program_not_deterministic(findings: Findings) -> None:
    findings.add([WRONG, disagreement([WRONG])])
    assert findings.decided.verdict is Verdict.NONDETERMINISTIC
    assert findings.decided.message == f"correct in one worker group, not in a second one: {WRONG.message}"
    assert findings.decided.size == "tiny"


def test_errors_without_the_submission_are_the_nodes_and_a_cancellation_is_not() -> None:
    with pytest.raises(EvaluatorError, match="has gone") as caught, without_the_submission():
        raise OUR_ERROR
    assert type(caught.value).__name__ == "NodeFailure"
    with pytest.raises(Cancelled), without_the_submission():
        raise Cancelled("the evaluation was cancelled")
