"""Ranks that end before they could read the submission are nobody's fault; what ends later is the submission's."""

import contextlib
import dataclasses
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evaluator.contract import EvaluationReport, Mode, Stage, Verdict
from evaluator.host import Judge
from evaluator.host.process import procfs
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import request_for, request_for_text
from tests.evaluator.test_faults import LAUNCHER, processes_of
from tests.stack import wait_until

pytestmark = pytest.mark.usefixtures("alone")

IMPORTING = "importing solution.py"

Strike = Callable[[Stage, str, float | None], None]


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Judge]:
    with judge_in(tmp_path) as judge:
        yield judge


def judge_in(work_dir: Path, **settings: float) -> Judge:
    """A judge whose evaluations have one worker group at a time, unless `settings` ask for more."""
    # Those of an earlier test may still be ending.
    wait_until(lambda: not processes_of(LAUNCHER), what="no ranks are left", seconds=60)
    return Judge(dataclasses.replace(SETTINGS, work_dir=work_dir, blocks=2, warm=False, **settings))


def status(pid: int) -> str:
    """What the kernel says of a process; of one that is gone, what it says of one that has ended."""
    try:
        return Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "\nState:\tZ\nThreads:\t1\n"


def has_ended(pid: int) -> bool:
    """Whether a process has ended with all its threads, though nobody may have waited for it."""
    return "\nState:\tZ" in status(pid) and "\nThreads:\t1\n" in status(pid)


def end(pid: int) -> None:
    """Kill a process, and return once it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: has_ended(pid), what=f"process {pid} has ended", seconds=60)


def launcher() -> int:
    """The launcher of the only worker group there is."""
    found = processes_of(LAUNCHER)
    (first,) = (pid for pid in found if procfs.parent_of(pid) not in found)
    return first


def rank() -> int:
    """A rank of the only worker group there is."""
    return next(pid for pid in processes_of(LAUNCHER) if procfs.parent_of(pid) == launcher())


def ends(victim: Callable[[], int], *, ended: list[int], import_number: int = 1) -> Strike:
    """Ends a process of the present worker group after the judge's last look at it, and before the import."""
    imports = itertools.count(1)

    def strike(_stage: Stage, words: str, _fraction: float | None) -> None:
        if words == IMPORTING and next(imports) == import_number:
            ended.append(victim())
            end(ended[-1])

    return strike


@pytest.mark.parametrize(("victim", "mode"), [(launcher, Mode.CHECK), (rank, Mode.RANKED)])
def test_a_rank_that_ends_before_it_can_read_the_submission_is_replaced(
    slot: Judge, victim: Callable[[], int], mode: Mode
) -> None:
    ended: list[int] = []
    report = slot.evaluate(request_for("correct", mode=mode), progress=ends(victim, ended=ended))
    assert ended
    assert report.verdict is Verdict.PASSED, report.findings
    assert not slot.error_log
    assert not slot.quarantine


@pytest.mark.slow
def test_the_same_goes_for_a_second_worker_group(tmp_path: Path) -> None:
    ended: list[int] = []
    with judge_in(tmp_path, second_group_share=0.25) as slot:
        strike = ends(rank, ended=ended, import_number=2)
        report = slot.evaluate(request_for("correct", mode=Mode.RANKED), progress=strike)
        assert ended
        assert report.verdict is Verdict.PASSED, report.findings
        assert not slot.error_log


@pytest.mark.slow
def test_a_rank_that_ends_with_the_command_to_import_unread_is_replaced(slot: Judge) -> None:
    """Its peer has that command already, and waits for it."""
    stopped: list[int] = []

    def stop(_stage: Stage, words: str, _fraction: float | None) -> None:
        if words == IMPORTING and not stopped:
            stopped.append(rank())
            os.kill(stopped[0], signal.SIGSTOP)
            wait_until(lambda: "\nState:\tT" in status(stopped[0]), what="the rank stands still", seconds=60)

    def cancelled() -> bool:
        """Asked next when the command has been sent to every rank."""
        if stopped and not has_ended(stopped[0]):
            end(stopped[0])
        return False

    report = slot.evaluate(request_for("correct"), progress=stop, cancelled=cancelled)
    assert stopped
    assert report.verdict is Verdict.PASSED, report.findings
    assert not slot.error_log


@pytest.mark.slow
def test_ranks_that_end_again_in_their_place_are_a_failure_of_the_node(slot: Judge) -> None:
    request, ended = request_for("correct"), list[int]()

    def cancelled() -> bool:
        """Asked while the judge waits for the group in its place."""
        for pid in processes_of(LAUNCHER) if ended else ():
            end(pid)
        return False

    report = slot.evaluate(request, progress=ends(rank, ended=ended), cancelled=cancelled)
    assert ended
    assert report.verdict is Verdict.JUDGE_FAILURE, report.findings
    assert slot.evaluate(request).verdict is Verdict.PASSED


KILLS = """import os, signal

for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        try:
            os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
{then}


def solution(tensor):
    return tensor
"""


@pytest.mark.parametrize("then", ["", "os.kill(os.getpid(), signal.SIGKILL)"], ids=["lives", "dies too"])
def test_a_program_that_ends_ranks_while_they_import_gets_no_other_ranks(slot: Judge, then: str) -> None:
    started: list[str] = []
    report: EvaluationReport = slot.evaluate(
        request_for_text(KILLS.format(then=then)), progress=lambda _stage, words, _fraction: started.append(words)
    )
    assert report.verdict is Verdict.CRASHED, report.findings
    assert started.count(IMPORTING) == 1
