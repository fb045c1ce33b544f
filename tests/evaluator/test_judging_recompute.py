"""Anyone can compute a report's score, interval and verdict again from its own calls."""

import msgspec
import pytest

from evaluator import cli
from evaluator.contract import EvaluationReport, OutputCheck, Record, SizeResult, Verdict
from evaluator.judging.recompute import recompute
from tests.evaluator.timed_records import RULES, report_of, series


@pytest.mark.parametrize(
    "records",
    [(series(),), (series(), series(reference_us=(200.0,) * 3, group_number=2, seed=3)), (series(floor_us=150.0),)],
    ids=["one worker group", "two worker groups", "below its floor"],
)
def test_a_report_agrees_with_its_own_record_after_json(records):
    report = EvaluationReport.from_json(report_of(*records).to_json())
    found = recompute(report)
    assert found.agrees, found.differences
    assert found.verdict is report.verdict


def test_a_changed_report_no_longer_agrees():
    honest = report_of(series())
    timed = honest.timing
    better = msgspec.structs.replace(timed, high=9.0, score=9.0)
    assert any("score" in text for text in recompute(msgspec.structs.replace(honest, timing=better)).differences)
    other = msgspec.structs.replace(timed, rule=1)
    assert any("rule" in text for text in recompute(msgspec.structs.replace(honest, timing=other)).differences)
    (size,) = timed.sizes
    lower = msgspec.structs.replace(timed, sizes=(msgspec.structs.replace(size, low=1.0),))
    assert recompute(msgspec.structs.replace(honest, timing=lower)).differences == (
        f"size tiny: low: the report says 1, its calls give {size.low:.6g}",
    )


def test_a_record_that_does_not_bear_its_report_out_is_named():
    honest = report_of(series())
    lenient = msgspec.structs.replace(honest, record=Record(rules=RULES, sizes=(series(busy_ms=400.0),)))
    assert any(Verdict.TIMING_INCONSISTENT in text for text in recompute(lenient).differences)
    without = msgspec.structs.replace(honest, record=None)
    assert recompute(without).differences == ("the report has no record of its calls",)
    whole = series()
    torn = msgspec.structs.replace(whole, calls=whole.calls[:-1])
    found = recompute(msgspec.structs.replace(honest, record=Record(rules=RULES, sizes=(torn,))))
    assert "incomplete" in found.differences[0]


def test_an_error_beyond_its_limit_needs_an_extreme_element_that_is_allowed():
    whole = series()
    far = msgspec.structs.replace(
        whole, calls=(msgspec.structs.replace(whole.calls[0], max_error=4.5), *whole.calls[1:])
    )
    honest = msgspec.structs.replace(report_of(whole), record=Record(rules=RULES, sizes=(far,)))
    assert recompute(honest).differences == ("size tiny: a call has an error of 4.5 times its limit, 1 is allowed",)
    for elements, difference in ((640_000_000, ()), (10_000_000, (": a call has an error of 4.5 times its limit, 4",))):
        check = OutputCheck(
            rank=0,
            output="out",
            elements=elements,
            wrong_elements=0,
            extreme_elements=1,
            max_error=4.5,
            rms_error=0.001,
        )
        size = SizeResult(size="tiny", dims={}, calls=1, checked_calls=1, outputs=(check,))
        found = recompute(msgspec.structs.replace(honest, sizes=(size,))).differences
        assert tuple(text.removeprefix("size tiny").removesuffix(" is allowed") for text in found) == difference


def test_the_command_says_whether_a_report_agrees(tmp_path, capsys):
    honest = report_of(series())
    raised = msgspec.structs.replace(honest.timing, high=9.0, score=9.0)
    for text, status, words in (
        (honest.to_json(), 0, "ranked by"),
        (msgspec.structs.replace(honest, timing=raised).to_json(), 1, "DIFFERS  score"),
        ("{}", 2, "not a report of this judge"),
        (honest.to_json().replace('"schema_version":2', '"schema_version":1'), 2, "schema_version"),
    ):
        path = tmp_path / "report.json"
        path.write_text(text)
        assert cli.main(["recompute", str(path)]) == status
        shown = capsys.readouterr()
        assert words in shown.out + shown.err
    assert cli.main(["recompute", str(tmp_path / "none.json")]) == 2
