"""Worker groups that are kept for the next evaluation and the evaluation that runs meanwhile."""

import contextlib
import dataclasses
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluator.contract import Mode, Stage, Verdict
from evaluator.host import Judge
from evaluator.host.ranks.pools import WaitingGroups
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import job_for, request_for
from tests.evaluator.test_faults import LAUNCHER, processes_of
from tests.stack import wait_until

pytestmark = pytest.mark.usefixtures("alone")


@pytest.mark.parametrize(("mode", "share"), [(Mode.CHECK, 0), (Mode.RANKED, 0.25)])
def test_only_ranked_work_has_a_second_group(mode: Mode, share: float) -> None:
    assert job_for(dataclasses.replace(SETTINGS, second_group_share=0.25), mode=mode).second_share == share


def test_nothing_is_timed_while_a_group_for_later_still_starts_and_one_that_ended_costs_nothing(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path, second_group_share=0.25, blocks=2)
    has_started: list[bool] = []
    with Judge(settings) as judge:

        def look(stage: Stage, _words: str, _fraction: float | None) -> None:
            if stage is Stage.TIMING:
                has_started.extend(group.is_ready for group in judge.slot.waiting.groups)

        # Takes one of two worker groups, and its end starts another, which the next evaluation does not take.
        assert judge.evaluate(request_for("correct")).verdict is Verdict.PASSED
        report = judge.evaluate(request_for("correct", mode=Mode.BENCHMARK), progress=look)
        assert report.verdict is Verdict.PASSED, report.message
        assert len(has_started) > 1, "blocks, and calls back to back"
        assert all(has_started)
        waiting = judge.slot.waiting.groups[0]
        os.kill(waiting._workers[0].pid or 0, signal.SIGKILL)  # noqa: SLF001
        deadline = time.monotonic() + 60
        while waiting.is_alive:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        report = judge.evaluate(request_for("correct"))
    assert report.verdict is Verdict.PASSED, report.message


def test_groups_that_end_before_they_are_ready_are_replaced_within_the_evaluation(tmp_path: Path) -> None:
    """As where they start while an earlier program's processes still hold memory: that must not cost this one a try."""
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path, second_group_share=0.25, blocks=2, warm=False)
    with Judge(settings) as judge:
        ended: list[int] = []
        report = judge.evaluate(request_for("correct", mode=Mode.RANKED), progress=_ends_groups(tmp_path, ended))
        assert ended, "launchers, and those of their ranks that had begun"
        assert report.verdict is Verdict.PASSED, report.message
        assert not judge.error_log
        assert not judge.quarantine
        assert judge.evaluate(request_for("correct")).verdict is Verdict.PASSED


def test_groups_that_cannot_be_replaced_are_a_failure_of_the_node_at_once(tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    with Judge(dataclasses.replace(SETTINGS, work_dir=work_dir, warm=False)) as judge:
        ended: list[int] = []
        strike = _ends_groups(work_dir, ended)

        def look(stage: Stage, words: str, fraction: float | None) -> None:
            strike(stage, words, fraction)
            if ended and work_dir.exists():
                shutil.rmtree(work_dir)

        report = judge.evaluate(request_for("correct"), progress=look)
        assert ended, "launchers, and those of their ranks that had begun"
    assert report.verdict is Verdict.JUDGE_FAILURE, report.findings


def test_a_group_that_is_being_prepared_has_no_ranks_until_it_is_let_start(tmp_path: Path) -> None:
    """What an evaluation that is measured has beside it: one process, which imports and then sleeps."""
    with Judge(dataclasses.replace(SETTINGS, work_dir=tmp_path, warm=False)) as judge:
        waiting = WaitingGroups(judge.slot.start_group, wanted=1, age_s=600.0)
        try:
            waiting.prepare()
            (group,) = waiting.groups
            waiting.wait_until_ready()
            assert not group.is_ready, "nobody waits for what was not let start"
            assert not group.has_ranks
            waiting.refill()
            waiting.wait_until_ready()
            assert group.is_ready
            assert waiting.take() is group
            group.close()
        finally:
            waiting.close()


def test_a_group_that_never_had_ranks_leaves_nothing(tmp_path: Path) -> None:
    with Judge(dataclasses.replace(SETTINGS, work_dir=tmp_path, warm=False)) as judge:
        waiting = WaitingGroups(judge.slot.start_group, wanted=2, age_s=600.0)
        waiting.prepare()
        processes = waiting.processes
        assert processes
        waiting.close()
        # Whoever inherits a process that was killed reaps it a moment later.
        wait_until(
            lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes), what="they are gone", seconds=10
        )
        assert not waiting.folders


@pytest.mark.parametrize(
    ("name", "verdict", "have_ranks"), [("correct", Verdict.PASSED, True), ("segfault", Verdict.CRASHED, False)]
)
def test_groups_that_have_imported_start_their_ranks_while_those_of_an_evaluation_end_well(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, name: str, verdict: Verdict, *, have_ranks: bool
) -> None:
    """After a bad end no ranks start before the slot has proved clean."""
    seen = _seen_while_ending(judge, monkeypatch)
    report = judge.evaluate(request_for(name), progress=_prepares_beside(judge))
    assert report.verdict is verdict, report.message
    assert seen == [[have_ranks]]
    assert not judge.quarantine
    assert judge.evaluate(request_for("correct")).verdict is Verdict.PASSED


def _ends_groups(work_dir: Path, ended: list[int]) -> Callable[[Stage, str, float | None], None]:
    """Ends all worker groups once an evaluation waits for them; the numbers of their processes come into `ended`."""

    def look(_stage: Stage, words: str, _fraction: float | None) -> None:
        if words == "waiting for the ranks" and not ended:
            ended.extend(processes_of(LAUNCHER))
            for pid in ended:
                with contextlib.suppress(ProcessLookupError):  # some end with the one before
                    os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + 60
            while any(Path(f"/proc/{pid}").exists() for pid in ended):
                assert time.monotonic() < deadline
                time.sleep(0.01)

    return look


def _prepares_beside(judge: Judge) -> Callable[[Stage, str, float | None], None]:
    """Lets the next group import during an evaluation, as a node does that has processors to spare."""

    def look(stage: Stage, _words: str, _fraction: float | None) -> None:
        if stage is Stage.VERIFYING:
            judge.slot.waiting.prepare()

    return look


def _seen_while_ending(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> list[list[bool]]:
    """For each evaluation, whether the waiting groups had ranks when the judge looked for leftovers."""
    seen: list[list[bool]] = []
    health = judge.slot.health
    look = health.leftovers

    def noted(*, within: Callable[[float], float]) -> tuple[str, ...]:
        seen.append([group.has_ranks for group in judge.slot.waiting.groups])
        return look(within=within)

    monkeypatch.setattr(health, "leftovers", noted)
    return seen
