"""Reports of the first schema are read: their conclusions stay, and are marked as of the earlier rule."""

import gzip
import json
from pathlib import Path

import pytest

from evaluator.contract import ContractError, Delivery, EvaluationReport, Verdict
from evaluator.judging.recompute import recompute
from problems import registry

STORED = sorted((registry.DATA / "baselines").glob("full_stack_*_2026-11-21.json.gz"))


def stored_report(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))["submission"]["evaluation"]["report"]


@pytest.fixture(params=STORED, ids=lambda path: path.stem)
def stored(request: pytest.FixtureRequest) -> dict:
    return stored_report(request.param)


def test_what_an_earlier_judge_concluded_is_kept(stored):
    found = EvaluationReport.from_json(json.dumps(stored))
    assert (found.schema_version, found.verdict, found.message) == (1, Verdict.PASSED, stored["message"])
    assert (found.timing.rule, found.record) == (1, None)
    for name in ("score", "low", "high", "blocks"):
        assert json.dumps(getattr(found.timing, name)) == json.dumps(stored["timing"][name])
    for size, before in zip(found.timing.sizes, stored["timing"]["sizes"], strict=True):
        assert list(size.ratios) == before["ratios"]
        assert size.candidate.median_us == before["candidate"]["median_us"]
        assert (size.score, size.empty_us) == (None, None)


def test_reading_it_again_changes_nothing(stored):
    found = EvaluationReport.from_json(json.dumps(stored))
    assert EvaluationReport.from_json(found.to_json()) == found


def test_a_node_that_was_not_renewed_yet_may_deliver(stored):
    delivery = Delivery.from_json(json.dumps({"lease": "l", "node": "n", "report": stored}))
    assert delivery.report == EvaluationReport.from_json(json.dumps(stored))


def test_it_cannot_be_computed_again_and_says_so(stored):
    found = recompute(EvaluationReport.from_json(json.dumps(stored)))
    assert found.agrees
    assert found.timing is None
    assert "earlier rule" in found.note


def test_one_that_was_refused_for_its_times_cannot_either(stored):
    refused = {**stored, "verdict": "TIMING_INCONSISTENT", "timing": None}
    found = recompute(EvaluationReport.from_json(json.dumps(refused)))
    assert found.agrees
    assert "earlier rule" in found.note


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"surprise": 1}, "surprise"),
        ({"timing": 7}, "timing"),
        ({"timing": {"sizes": 7}}, "timing"),
        ({"verdict": "GREAT"}, "verdict"),
    ],
)
def test_what_no_schema_has_is_still_refused(change, words):
    with pytest.raises(ContractError, match=words):
        EvaluationReport.from_json(json.dumps({**stored_report(STORED[0]), **change}))


@pytest.mark.parametrize("before", [b"", b'{"schema_version":1,"record":', b'{"report":{"schema_version":1,"x":'])
def test_deep_text_is_refused(before):
    for kind in (EvaluationReport, Delivery):
        with pytest.raises(ContractError):
            kind.from_json(before + b'{"a":' * 100_000)
