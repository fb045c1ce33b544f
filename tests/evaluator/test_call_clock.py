"""The time of a call is the host's: how long ranks may queue, when an answer counts, and what a forged one comes to."""

import copy
import dataclasses
import os
import time
from collections.abc import Iterator

import pytest

from evaluator.contract import EvaluationReport, Mode, Verdict
from evaluator.errors import EvaluatorError
from evaluator.host import Judge
from evaluator.host.clock.call_clock import CallTime, GateClock
from evaluator.host.evaluation.evaluation import Evaluation
from evaluator.host.job import Job
from evaluator.host.measure.launch_ahead import LONGEST_S, WAITING_S, LaunchAhead, MetLayouts
from evaluator.host.process.deadlines import Deadlines
from evaluator.host.ranks.pools import WaitingGroups
from evaluator.host.ranks.worker_group import WorkerGroup
from evaluator.host.resources import Resources
from tests.evaluator.judging_help import request_for, request_for_text

# ---- how long ranks may queue work -------------------------------------------------------------------------------


def taken(*, has_queued: bool) -> CallTime:
    return CallTime(done_ns=(1,), has_queued=has_queued)


def after(*calls: bool) -> LaunchAhead:
    """A launch-ahead that has seen calls, of which each queued everything or did not."""
    head = LaunchAhead()
    for has_queued in calls:
        head.note(taken(has_queued=has_queued))
    return head


def test_the_third_call_shows_whether_a_program_queues_all_its_work() -> None:
    assert after(False, True, True).waits_for_queue
    assert not after(True, True, False).waits_for_queue
    assert after(False, False, True).seconds == LONGEST_S
    assert after(True, True, False).seconds == WAITING_S


def test_until_then_it_is_asked_to() -> None:
    """The first call compiles and loads; what it could not queue says nothing of the next."""
    for calls in ((False,), (False, False)):
        head = after(*calls)
        assert (head.waits_for_queue, head.is_fixed, head.seconds) == (True, False, LONGEST_S)


@pytest.mark.parametrize("is_queuing", [True, False])
def test_no_later_call_changes_it(*, is_queuing: bool) -> None:
    """A program cannot choose call by call how it is timed."""
    head = after(True, True, is_queuing)
    for _ in range(5):
        head.note(taken(has_queued=not is_queuing))
    assert (head.waits_for_queue, head.is_fixed) == (is_queuing, True)


def test_what_an_earlier_group_showed_is_kept() -> None:
    head = LaunchAhead(waits_for_queue=True, is_fixed=True)
    head.note(taken(has_queued=False))
    assert head.waits_for_queue


def test_the_first_calls_with_new_shapes_or_flags_wait_for_an_open_gate() -> None:
    met = MetLayouts()
    assert met.is_new(("source", "other"))
    assert not met.is_new(("source", "other"))
    assert met.is_new(("other", "source")), "one rank's arguments are enough"
    assert not met.is_new(("source", "other"))


def test_a_problem_with_other_lengths_in_every_call_is_timed_behind_the_gate() -> None:
    """Otherwise every one of its calls would contain the host's work."""
    met = MetLayouts()
    found = [met.is_new(length) for length in range(100)]
    assert found == [True] * 4 + [False] * 96


# ---- answers ------------------------------------------------------------------------------------------------------

SLEEPS = (
    "import time\n\nimport torch.distributed as dist\n\n\n\ndef solution(tensor):\n    out = tensor.clone()\n"
    "    if dist.get_rank() == 1:\n        time.sleep(0.05)\n    dist.all_reduce(out)\n    return out\n"
)


def test_a_call_of_cpu_ranks_lasts_to_the_last_answer(judge: Judge) -> None:
    """One rank sleeps and all wait for it in the collective: none is done before, whatever its own clock says."""
    report = judge.evaluate(request_for_text(SLEEPS))
    assert report.verdict is Verdict.PASSED, report.message
    assert report.record is not None
    for call in report.record.sizes[0].calls:
        assert min(call.done_ns) >= 50_000_000
        assert call.time_ns == max(call.done_ns)


# ---- ends that devices never post --------------------------------------------------------------------------------


@pytest.fixture
def gated(judge: Judge) -> Iterator[Resources]:
    """The judge's CPU ranks under the clock of GPUs: they answer to the host, and no device tells an end."""
    slot = judge.slot
    with GateClock(spawner=slot.spawner, cores=sorted(os.sched_getaffinity(0))) as clock:
        yield dataclasses.replace(slot.resources, clock=clock)


def judged(judge: Judge, resources: Resources, *, mode: Mode) -> EvaluationReport:
    """A correct program, judged by `resources` with the judge's oracle ranks."""
    slot = copy.copy(judge.slot)
    slot.waiting = WaitingGroups(
        lambda: WorkerGroup(resources, spawner=slot.spawner, work_dir=slot.work_dir), wanted=0, age_s=60.0
    )
    deadlines = Deadlines(time.monotonic() + judge.settings.evaluation_s)
    job = Job(request=request_for("correct", mode=mode), resources=resources, deadlines=deadlines)
    evaluation = Evaluation(job, slot)
    try:
        evaluation.run()
        return evaluation.report(started_at="", finished_at="")
    finally:
        evaluation.close()


def test_answers_to_the_host_whose_end_no_device_reported_are_tampering(judge: Judge, gated: Resources) -> None:
    report = judged(judge, gated, mode=Mode.CHECK)
    assert report.verdict is Verdict.TAMPERED, report.message
    assert "rank 0 answered call 1, but its device never posted the end of the call" in report.message
    # The gatekeeper is ready for the next call.
    assert judged(judge, gated, mode=Mode.CHECK).verdict is Verdict.TAMPERED


def test_bare_calls_whose_end_nobody_posted_are_the_judges_failure(judge: Judge, gated: Resources) -> None:
    """There is no submission in the ranks yet: it cannot be to blame."""
    with pytest.raises(EvaluatorError, match="sandbox ranks without a submission: the devices of ranks"):
        judged(judge, gated, mode=Mode.BENCHMARK)
