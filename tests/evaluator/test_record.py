"""The record of a judgement: what a report has to carry, so that others can judge the judge."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator import cli
from evaluator.contract import SCHEMA_VERSION, SCORE_RULE, EvaluationReport, Mode, Verdict
from evaluator.host import Judge, JudgeSettings
from evaluator.judging.recompute import recompute
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import job_for, request_for

MOST_BYTES = 200_000


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EvaluationReport]]:
    """Two ranked judgements of one correct program, one after the other."""
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path_factory.mktemp("slot"), blocks=6)
    with Judge(settings) as judge:
        yield [judge.evaluate(request_for("correct", mode=Mode.RANKED)) for _ in range(2)]


def test_every_call_says_when_each_rank_was_done_and_what_was_taken(reports: list[EvaluationReport]) -> None:
    digests: list[str] = []
    for report in reports:
        assert report.verdict is Verdict.PASSED, report.message
        assert report.record is not None
        for call in report.record.sizes[0].calls:
            assert len(call.done_ns) == len(call.marks) == report.world_size
            assert min(call.done_ns) > 0
            # An all-reduce gives every rank the same; other inputs give another output.
            assert len(set(call.digests)) == (1 if call.is_checked else 0)
            assert (call.rms_error is not None) is call.is_checked
            digests += call.digests[:1] if "zero_values" not in call.regime else ()  # zeros, whatever is drawn
    assert len(set(digests)) == len(digests) > 0


def test_a_score_says_by_which_rule_and_how_surely(reports: list[EvaluationReport]) -> None:
    for report in reports:
        assert report.schema_version == SCHEMA_VERSION
        assert report.timing is not None
        assert (report.timing.rule, report.timing.coverage) == (SCORE_RULE, 0.95)
        (size,) = report.timing.sizes
        assert size.low <= size.score <= size.high
        assert size.score == pytest.approx(report.timing.score)


def test_canaries_stand_before_and_after(reports: list[EvaluationReport]) -> None:
    first, second = reports
    assert [canary.is_full for canary in first.canaries] == [True, False]
    assert second.canaries[0] == first.canaries[-1]
    assert second.canaries[0].at <= second.started_at <= second.finished_at >= second.canaries[-1].at
    assert not any(canary.failures for canary in (*first.canaries, *second.canaries))


def test_a_report_names_its_judge_and_what_it_ran_with(reports: list[EvaluationReport]) -> None:
    first, second = reports
    assert first.environment["judge"] == second.environment["judge"]
    assert {"torch", "kernel", "python", "judge.blocks", "sandbox.missing"} <= first.environment.keys()
    assert first.commitment != second.commitment
    assert first.record is not None
    assert first.record.sizes[0].processes >= first.world_size


def test_anyone_can_compute_score_interval_and_verdict_again(
    reports: list[EvaluationReport], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_text(reports[0].to_json())
    assert cli.main(["recompute", str(path)]) == 0
    assert "the report agrees with its record" in capsys.readouterr().out
    path.write_text(json.dumps({"id": 1, "state": "finished", "report": json.loads(reports[0].to_json())}))
    assert cli.main(["recompute", str(path)]) == 0
    changed = json.loads(reports[0].to_json())
    changed["timing"]["low"] *= 0.99
    path.write_text(json.dumps(changed))
    assert cli.main(["recompute", str(path)]) == 1
    assert "DIFFERS  low" in capsys.readouterr().out


def test_a_record_is_bounded(reports: list[EvaluationReport]) -> None:
    assert all(len(report.to_json()) < MOST_BYTES for report in reports)


def test_a_ranked_evaluation_alone_has_a_second_group() -> None:
    settings = JudgeSettings(profile="cpux2", second_group_share=0.25)
    assert job_for(settings).second_share == 0.25
    assert {job_for(settings, mode=mode).second_share for mode in Mode if mode is not Mode.RANKED} == {0.0}


def test_a_second_group_counts_with_the_first(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path, second_group_share=0.5, blocks=4)
    with Judge(settings) as judge:
        report = judge.evaluate(request_for("correct", mode=Mode.RANKED))
    assert report.verdict is Verdict.PASSED, report.message
    assert report.record is not None
    assert report.timing is not None
    first, second = report.record.sizes
    assert (first.group_number, second.group_number) == (1, 2)
    assert len(second.blocks) == len(second.reference) > 0
    (size,) = report.timing.sizes
    assert len(size.ratios) == len(first.blocks) + len(second.blocks)
    assert recompute(report).agrees
