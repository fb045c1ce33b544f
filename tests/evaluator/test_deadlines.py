"""An evaluation leaves its slot within half a minute after its deadline, whatever is stuck: real processes."""

import contextlib
import dataclasses
import math
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from evaluator.contract import Assignment, EvaluationReport, Mode, SlotState, Stage, Verdict
from evaluator.host import Judge
from evaluator.host.process.deadlines import MOST_OVERRUN_S, NO_DEADLINES, Deadlines
from evaluator.node.slots import Slot
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.judging_help import request_for, request_for_text
from tests.evaluator.test_faults import LAUNCHER, TRUSTED_LAUNCHER, ranks_of

pytestmark = pytest.mark.usefixtures("alone")

DEADLINE_S = 12.0
"""From the first call on."""
SLACK_S = 10.0
"""For starting and ending the judge's own threads on a busy machine."""

FREEZER = Path("/sys/fs/cgroup/freezer")


def evaluated_in_time(judge: Judge, strike) -> EvaluationReport:
    """The report on a correct program, with `strike` once its first call has begun; within the promised time.

    The deadline is set then: how long ranks take to start on a busy machine does not count.
    """
    reports, begun, deadlines = [], threading.Event(), Deadlines(math.inf)

    def progress(stage: Stage, _detail: str, _fraction: float | None) -> None:
        if stage is Stage.VERIFYING and not begun.is_set():
            deadlines.evaluation = time.monotonic() + DEADLINE_S
            begun.set()
            strike()

    thread = threading.Thread(
        target=lambda: reports.append(judge.evaluate(request_for("correct"), progress=progress, deadlines=deadlines)),
        daemon=True,
    )
    thread.start()
    assert begun.wait(240), "no call has begun"
    thread.join(DEADLINE_S + MOST_OVERRUN_S + SLACK_S)
    assert reports, "the evaluation still holds its slot"
    return reports[0]


@pytest.fixture
def judge(tmp_path):
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path, warm=False)
    with Judge(settings) as started:
        yield started


@pytest.mark.slow
def test_an_oracle_rank_that_stands_still_does_not_hold_the_slot_for_the_five_minutes_of_an_answer(judge):
    report = evaluated_in_time(judge, lambda: os.kill(ranks_of(TRUSTED_LAUNCHER)[0], signal.SIGSTOP))
    assert report.verdict is Verdict.JUDGE_ERROR
    assert "did not answer" in judge.error_log
    assert not judge.quarantine
    # The slot works. A busy machine may need longer than this slot's deadline to show it.
    assert judge.evaluate(request_for("correct"), deadlines=NO_DEADLINES).verdict is Verdict.PASSED


@pytest.fixture
def frozen():
    """A control group whose processes do not even end when they are killed."""
    folder = FREEZER / f"pkb-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"this machine has no freezer of version 1 that the tests may use: {error}")
    yield folder
    (folder / "freezer.state").write_text("THAWED")
    deadline = time.monotonic() + 30
    while (folder / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    with contextlib.suppress(OSError):
        folder.rmdir()


@pytest.mark.slow
def test_a_process_that_the_kernel_does_not_end_costs_the_slot_and_not_the_node(judge, frozen):
    def strike() -> None:
        (frozen / "cgroup.procs").write_text(str(ranks_of(LAUNCHER)[-1]))
        (frozen / "freezer.state").write_text("FROZEN")

    report = evaluated_in_time(judge, strike)
    assert report.verdict in (Verdict.TIMEOUT, Verdict.DEADLOCK), report.findings
    assert "still exist" in judge.quarantine
    assert judge.evaluate(request_for("correct")).verdict is Verdict.JUDGE_FAILURE


def test_a_judge_that_stands_still_itself_is_left_behind_and_its_report_goes_out(tmp_path):
    """Whatever hangs: here it is the thread of the judge, in a message that is never sent."""
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path, evaluation_s=3.0, warm=False)
    never, judges = threading.Event(), []

    def make_judge(_profile: str) -> Judge:
        judges.append(Judge(settings))
        return judges[-1]

    def progress(_stage: Stage, _detail: str, _fraction: float | None) -> None:
        never.wait()

    slot = Slot(0, settings.profile, make_judge=make_judge, changed=lambda: None, most_overrun_s=2.0)
    try:
        judged = slot.judge(
            Assignment(slot=0, lease="a", request=request_for("correct")), progress=progress, cancelled=lambda: False
        )
        assert judged.report.verdict is Verdict.JUDGE_ERROR
        assert "did not end in time" in judged.report.message
        assert "never.wait" in judged.error_log, "the operator sees where it stands"
        assert slot.status.state is SlotState.QUARANTINED
        again = Assignment(slot=0, lease="b", request=request_for("correct"))
        refused = slot.judge(again, progress=lambda *_: None, cancelled=lambda: False)
        assert refused.report.verdict is Verdict.JUDGE_FAILURE
        assert len(judges) == 1
    finally:
        never.set()
        with judges[0]._turn:  # noqa: SLF001 - until the thread that was left behind has ended
            judges[0].close()


def test_a_hold_shortens_what_comes_late_and_leaves_alone_what_comes_early():
    early, late = Deadlines(time.monotonic() + 900), Deadlines(time.monotonic() - 60)
    for method in ("step", "answer", "ending", "killing"):
        assert getattr(early, method)(300.0) == 300.0
        assert getattr(late, method)(300.0) <= 2.0
    assert late.is_over
    assert not early.is_over
    now = Deadlines(time.monotonic())
    assert now.step(300.0) < now.answer(300.0) < now.ending(300.0) < now.killing(300.0) < MOST_OVERRUN_S


def test_a_slow_program_is_not_refused_for_calls_that_rank_nothing(tmp_path: Path) -> None:
    """Calls back to back are as many as its own time allows: 100, as of the reference, would be over the limit."""
    slow = (
        "import time\n\nimport torch.distributed as dist\n\n\ndef solution(tensor):\n"
        "    time.sleep(0.45)\n    out = tensor.clone()\n    dist.all_reduce(out)\n    return out\n"
    )
    settings = dataclasses.replace(SETTINGS, work_dir=tmp_path, call_limit_s=4.0, blocks=2, second_group_share=0.0)
    with Judge(settings) as judge:
        report = judge.evaluate(request_for_text(slow, mode=Mode.BENCHMARK))
    assert report.verdict is Verdict.PASSED, report.message
    assert report.record is not None
    # Times are net of an empty call, which the pause of 0.45 s covers in part.
    assert (report.record.sizes[0].looped_ns or 0) > 100_000_000
