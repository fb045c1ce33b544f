"""What the client reads of a judge's report, and how it says it."""

import msgspec
import pytest

from evaluator.contract import (
    SCORE_RULE,
    Detection,
    EvaluationReport,
    EvidenceSource,
    Mode,
    Primitive,
    SizeTiming,
    TimeSummary,
    Timing,
    Verdict,
)
from pkb.attempt_files import read_attempts
from pkb.diagnosis import diagnosis
from pkb.errors import UsageError
from pkb.results import Evaluation, Figures, Report, Splits
from pkb.run_commands import endings
from portal.api.schema import document
from tools.tables import client_types

TIMES = TimeSummary(median_us=80.0, p10_us=75.0, p90_us=92.0, calls=240)
BY_THE_HOST = {
    "score": 1.25,
    "low": 1.21,
    "high": 1.29,
    "empty_us": 61.0,
    "candidate_empty_us": 64.0,
    "forgeable_us": 38.0,
    "claimed_us": 4321.0,
    "looped_us": 71.0,
    "baseline_looped_us": 95.0,
}


def judged() -> Evaluation:
    """A passed evaluation as the client holds it, its report as a judge writes it."""
    timing = Timing(
        score=1.25,
        low=1.21,
        high=1.29,
        blocks=(1.25,),
        sizes=(SizeTiming(size="base", candidate=TIMES, baseline=TIMES, ratios=(), rank_medians_us=(), **BY_THE_HOST),),
        rule=SCORE_RULE,
    )
    report = EvaluationReport(
        evaluation_id="1",
        problem="allreduce",
        revision="0",
        source_digest="0",
        backend="cuda",
        profile="h200x2-nomc",
        world_size=2,
        mode=Mode.RANKED,
        dtype="bfloat16",
        verdict=Verdict.PASSED,
        message="right",
        notes=("rank 1 printed more than is kept",),
        timing=timing,
        primitives=(Detection(primitive=Primitive.TMA, evidence=EvidenceSource.COMPILED, detail="seen"),),
    )
    return msgspec.convert(
        {
            **dict.fromkeys(("id", "url", "message", "size", "recorded_where", "problem_revision"), "x"),
            **dict.fromkeys(("recorded_on", "node_owner", "node", "stage", "queue", "poll_after_s", "facts", "split")),
            "attempt": 1,
            "profile": "h200x2-nomc",
            "mode": "ranked",
            "state": "finished",
            "verdict": "PASSED",
            "score": 1.25,
            "score_low": 1.21,
            "score_high": 1.29,
            "score_rule": SCORE_RULE,
            "queued_at": "2026-11-22T12:00:00Z",
            "started_at": None,
            "finished_at": None,
            "points": [],
            "report": msgspec.json.decode(report.to_json()),
        },
        Evaluation,
    )


def test_the_clients_types_are_those_of_the_openapi_document():
    assert client_types.TARGET.read_text(encoding="utf-8") == client_types.types(document()), "run `make client-types`"


def test_a_judges_report_is_read_whole():
    report = judged().report
    assert isinstance(report, Report)
    assert report.primitives[0].primitive == "tma"
    [size] = report.timing.sizes
    assert (size.low, size.forgeable_us, size.looped_us) == (1.21, 38.0, 71.0)


@pytest.mark.parametrize(
    "words",
    [
        "submission 80.0 us, reference 80.0 us, 1.25x the reference's speed (1.21 to 1.29)",
        "less 64.0 and 61.0 us of an empty call",
        "Note: rank 1 printed more than is kept",
        "back to back on unchanging inputs: submission 71.0 us, reference 95.0 us; does not affect the ranking",
    ],
)
def test_times_are_shown_with_what_was_subtracted(words):
    assert words in diagnosis(judged())


def test_no_time_that_a_submissions_own_process_reported_is_shown():
    assert "4321" not in diagnosis(judged())


def test_samples_without_a_verdict_are_named_by_what_they_wait_for():
    share = {"k": 1, "value": 0.0, "low": 0.0, "high": 0.1}
    figures = msgspec.convert(
        {
            "problems": 87,
            "attempted": 3,
            "measured": 87,
            "programs": 3,
            "judged": 1,
            "is_complete": False,
            "bounds": {"low": 0.01, "high": 0.03},
            "solved": 1,
            "faster": 0,
            "correct_at_1": share,
            "correct_at_k": share,
            "best_of_k": share,
            "fast": [],
            "fast_by_point": [],
            "published_classes": {"Correct": 1},
            "geomean_speedup": None,
            "verdicts": {"PASSED": 1},
            "pending": 2,
            "unranked": 0,
            "missing": 84,
            "score_rule": SCORE_RULE,
            "primitives": {},
            "cost_usd": None,
            "tokens": None,
        },
        Figures,
    )
    said = ", ".join(f"{number} {ending}" for ending, number in endings(figures).items())
    assert said == "1 PASSED, 2 pending, 84 missing"


def test_a_line_that_is_no_attempt_says_what_one_is(tmp_path):
    (tmp_path / "attempts.jsonl").write_text('{"problem": "allreduce", "sample": "first"}\n')
    with pytest.raises(
        UsageError, match=r"line 1 is not an attempt.*A line is a JSON object with problem and source"
    ) as told:
        list(read_attempts(tmp_path / "attempts.jsonl"))
    assert "docs/" not in str(told.value)


def test_the_model_that_revises_reads_where_a_recorded_calls_time_went():
    rank = {**dict.fromkeys(("call_us", "wire_us", "both_us", "mixed_us", "idle_us"), 0.0), "rank": 1}
    rank |= {"call_us": 105.0, "compute_us": 35.0, "wait_us": 70.0, "overlap": None, "launches": 1, "host_waits": 0}
    split = {"advice": "Rank 1 waits.", "largest_gap": "wait", "gaps_us": {}, "accounted": 1.0, "ranks": [rank]}
    split |= {"uncertainty_us": 0.0, **dict.fromkeys(("gates_apart_us", "usual_us", "wire_bytes_s", "flops_s"))}
    splits = {"size": "base", "trace_url": "x", "submission": split, "reference": None}
    evaluation = msgspec.structs.replace(judged(), split=msgspec.convert(splits, Splits))
    told = diagnosis(evaluation)
    assert "Inside one recorded call at size base" in told
    assert "Rank 1 waits." in told
    assert "submission, rank 1: 105.0 in all; compute 35.0, wire 0.0" in told
    assert "waiting for the last rank 70.0, neither 0.0" in told
