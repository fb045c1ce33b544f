"""Programs that hang, exhaust something, or return what is no usual tensor: no failure of ours, no slot held."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.contract import Verdict
from evaluator.host import Judge
from evaluator.host.process.deadlines import MOST_OVERRUN_S, NO_DEADLINES
from tests.evaluator.breaking_programs import EXHAUSTING, HANGING, PROGRAMS, RETURNING
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import evaluate_within, request_for, request_for_text

OURS = {Verdict.JUDGE_ERROR, Verdict.JUDGE_FAILURE}
DEADLINE_S = 12.0
SAMPLE = (
    "stops every process that it sees",
    "forks without end at import",
    "every signal to the launcher",
    "an error that cannot be told",
    "a million tensors",
    "a tuple 100,000 deep",
    "expanded by a stride of nothing",
)
"""One of each sort, for `make test`; `make gate` tries all."""


@pytest.fixture(scope="module")
def slot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path_factory.mktemp("slot"), call_limit_s=2.0, import_s=3.0)
    with Judge(settings) as judge:
        yield judge


def assert_it_breaks_nothing(slot: Judge, name: str) -> tuple[Verdict, float]:
    """The verdict on a program, which is the program's own and in time; and for how many seconds it held its slot."""
    report, held_s = evaluate_within(slot, request_for_text(PROGRAMS[name]), seconds=DEADLINE_S)
    assert report.verdict not in OURS, f"{name}: {report.findings}\n{slot.error_log}"
    assert not slot.quarantine, f"{name}: {slot.quarantine}"
    assert held_s < DEADLINE_S + MOST_OVERRUN_S, f"{name} held the slot for {held_s:.0f} s"
    assert len(report.to_json()) < 4_000_000, f"{name}: the report has {len(report.to_json()):,} characters"
    return report.verdict, held_s


@pytest.mark.parametrize("name", SAMPLE)
def test_a_program_that_tries_to_break_the_judge_gets_a_verdict_of_its_own(slot: Judge, name: str) -> None:
    assert_it_breaks_nothing(slot, name)


def test_no_rank_sets_a_limit_for_its_launcher_and_each_may_lower_its_own(slot: Judge) -> None:
    own = PROGRAMS["limits for the launcher"].replace(
        "return _right", "resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))\n    return _right"
    )
    report = slot.evaluate(request_for_text(own), deadlines=NO_DEADLINES)
    assert report.verdict is Verdict.PASSED, report.findings


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [HANGING, EXHAUSTING, RETURNING], ids=["hanging", "exhausting", "returning"])
def test_none_of_them_is_a_failure_of_ours_or_holds_its_slot(
    slot: Judge, kind: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {}
    for name in kind:
        rows[name] = assert_it_breaks_nothing(slot, name)
        (tmp_path / "rows.json").write_text(json.dumps(rows))
    assert slot.evaluate(request_for("correct")).verdict is Verdict.PASSED
    with capsys.disabled():
        for name, (verdict, held_s) in sorted(rows.items(), key=lambda row: -row[1][1]):
            print(f"\n| {name} | {verdict.value} | {held_s:.1f} s |", end="")  # noqa: T201
