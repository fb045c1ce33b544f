"""Which verdict an author reads when the evidence supports several."""

from itertools import combinations

import pytest

from evaluator.contract import Finding, Verdict
from evaluator.judging.verdicts import FACTS, Fault, decide, decide_before_ranks


def finding(verdict: Verdict, message: str = "") -> Finding:
    return Finding(verdict=verdict, message=message)


def test_every_verdict_is_explained():
    assert set(FACTS) == set(Verdict)
    assert all(facts.explanation and facts.advice for facts in FACTS.values())


def test_what_is_no_authors_doing_is_retried_and_never_charged():
    retried = {verdict for verdict, facts in FACTS.items() if facts.is_retried}
    assert retried == {Verdict.JUDGE_FAILURE, Verdict.BASELINE_UNSTABLE}
    assert {FACTS[verdict].fault for verdict in retried} == {Fault.JUDGE, Fault.NOBODY}
    assert not any(FACTS[verdict].is_charged for verdict in retried)


RESULT_ORDER = [
    Verdict.JUDGE_FAILURE,
    Verdict.TAMPERED,
    Verdict.FORBIDDEN,
    Verdict.CRASHED,
    Verdict.WRONG_SHAPE,
    Verdict.INCOMPLETE_OUTPUT,
    Verdict.STALE_OUTPUT,
    Verdict.INPUT_MUTATED,
    Verdict.NONDETERMINISTIC,
    Verdict.NOT_FINITE,
    Verdict.WRONG_RESULT,
    Verdict.TIMING_INCONSISTENT,
    Verdict.BELOW_FLOOR,
    Verdict.TRAFFIC_BELOW_MINIMUM,
    Verdict.BASELINE_UNSTABLE,
    Verdict.PASSED,
]


@pytest.mark.parametrize(("stronger", "weaker"), list(combinations(RESULT_ORDER, 2)))
def test_the_specific_verdict_wins_over_the_general_one(stronger, weaker):
    assert decide([finding(weaker), finding(stronger)]).verdict is stronger


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Verdict.CRASHED, Verdict.DEADLOCK),
        (Verdict.RUNTIME_ERROR, Verdict.DEADLOCK),
        (Verdict.DEADLOCK, Verdict.CRASHED),
        (Verdict.EARLY_EXIT, Verdict.TIMEOUT),
    ],
)
def test_among_failures_of_execution_the_earliest_cause_decides(first, second):
    assert decide([finding(first), finding(second)]).verdict is first


def test_every_verdict_has_a_place_in_the_precedence():
    assert all(decide([finding(verdict)]).verdict is verdict for verdict in Verdict)


def test_missing_evidence_never_passes():
    with pytest.raises(ValueError, match="without a finding"):
        decide([])


def test_before_ranks_limits_come_first_and_nothing_means_go_on():
    found = decide_before_ranks([finding(Verdict.IMPORT_ERROR), finding(Verdict.LIMIT_EXCEEDED)])
    assert found is not None
    assert found.verdict is Verdict.LIMIT_EXCEEDED
    assert decide_before_ranks([]) is None
