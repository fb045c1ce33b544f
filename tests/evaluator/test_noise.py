"""A busy machine makes times long and intervals wide, and ends no evaluation."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.contract import Mode, Verdict
from evaluator.host import Judge, JudgeSettings
from tests.evaluator.judging_help import request_for

BURNERS = 8
ROUNDS = 20


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Processes beside the judge that take all the processor time they can get."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BURNERS)]
    yield
    for burner in burners:
        burner.kill()
        burner.wait()


def judged(work_dir: Path, *, rounds: int) -> list[str]:
    """The verdicts of a correct program, ranked many times; short series, all other settings as on a site."""
    with Judge(JudgeSettings(profile="cpux2", work_dir=work_dir, blocks=3)) as judge:
        reports = [judge.evaluate(request_for("correct", mode=Mode.RANKED)) for _ in range(rounds)]
    return [f"{report.verdict}: {report.message}" for report in reports if report.verdict is not Verdict.PASSED]


@pytest.mark.usefixtures("busy_machine")
def test_a_right_program_passes_on_a_busy_machine(tmp_path: Path) -> None:
    assert judged(tmp_path, rounds=2) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("busy_machine")
def test_a_right_program_passes_twenty_times_on_a_busy_machine(tmp_path: Path) -> None:
    assert judged(tmp_path, rounds=ROUNDS) == []
