"""Real site and node: from submit to verdict, and nothing lost when a process of them is killed on the way."""

import pytest

from evaluator.contract import EarlierTry
from portal.accounts.models import User
from portal.nodes.models import Slot
from portal.ranking.models import Standing
from portal.ranking.queries import board
from portal.submissions import actions
from portal.submissions.models import State
from tests.portal.factories import bundle, evaluation_of, submit
from tests.stack import alive, wait_until

# On a machine with a load of 20 a node alone takes a minute to start.
pytestmark = pytest.mark.timeout(900)

# Slept through, not computed: long enough to be met in the middle, without load for the machine.
SLOW_SOLUTION = """import time

import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    time.sleep(0.04)
    return out
"""
WRONG_SOLUTION = """def solution(tensor):
    return tensor.clone()
"""


@pytest.fixture
def author(stack):
    return User.objects.create_user("alice")


@pytest.fixture
def running(stack, author):
    """An evaluation that is being judged on `alpha`."""
    stack.start_all()
    evaluation = evaluation_of(submit(author, files=bundle(SLOW_SOLUTION)))
    wait_for(evaluation, stack, lambda: evaluation.has_ended or evaluation.stage in ("verifying", "timing"))
    assert evaluation.state == State.RUNNING, f"{evaluation.verdict} before it was met running: {evaluation.message}"
    return evaluation


def wait_for(evaluation, stack, condition):
    """Until `condition` holds for the freshly read evaluation."""

    def holds():
        evaluation.refresh_from_db()
        assert not stack.ended(), f"ended by themselves: {stack.ended()}"
        return condition()

    try:
        wait_until(holds, what="")
    except AssertionError:
        logs = "\n".join(f"--- {name}\n{stack.log(name)[-6000:]}" for name in ("alpha", "web", "dispatcher"))
        pytest.fail(f"stuck: {evaluation.state} {evaluation.stage} {evaluation.message}\n{logs}")


def finish(evaluation, stack):
    wait_for(evaluation, stack, lambda: evaluation.has_ended)
    return evaluation


def assert_passed_once(evaluation):
    """PASSED, with one report of a pass and one standing."""
    assert (evaluation.state, evaluation.verdict) == (State.FINISHED, "PASSED"), evaluation.message
    assert [report.report.verdict for report in evaluation.reports.all()].count("PASSED") == 1
    assert Standing.objects.get().evaluation == evaluation
    assert evaluation.lease is None


@pytest.mark.slow
def test_a_right_and_a_wrong_program_get_their_verdicts(stack, author):
    stack.start_all()
    right = finish(evaluation_of(submit(author)), stack)
    assert_passed_once(right)
    assert right.score_low <= right.score <= right.score_high
    wrong = finish(evaluation_of(submit(author, files=bundle(WRONG_SOLUTION))), stack)
    assert wrong.verdict == "WRONG_RESULT"
    assert (right.attempt, wrong.attempt) == (1, 1)
    [row] = board("allreduce", profile="cpux2")
    assert (row.author, row.submission_id) == ("alice", right.submission_id)
    report = right.reports.get().report
    assert (report.evaluation_id, report.source_digest) == (str(right.pk), right.submission.source.digest)
    spool = stack.data_dir / "spool" / "alpha"
    wait_until(lambda: not list(spool.iterdir()), what="the site has told the node that it has both reports")
    ends = {name: stack.stop(name) for name in ("dispatcher", "alpha", "web")}
    assert ends == {"dispatcher": 0, "alpha": 0, "web": 0}


@pytest.mark.slow
def test_killing_the_web_processes_and_then_the_dispatcher_loses_nothing(stack, running):
    stack.kill_with_children("web")
    stack.start_web()
    stack.kill("dispatcher")
    stack.start_dispatcher()
    assert_passed_once(finish(running, stack))
    assert running.attempt == 1


def test_killing_the_node_loses_nothing_and_leaves_no_rank_behind(stack, running):
    family = stack.descendants("alpha")
    assert len(family) >= 4, "two ranks of the submission and two of the oracle"
    stack.kill("alpha")
    wait_until(lambda: not alive(family), what="every process of the judge has ended", seconds=30)
    stack.start_node("alpha")
    assert_passed_once(finish(running, stack))
    assert running.attempt == 2
    [report] = running.reports.all()
    assert report.report.earlier == (EarlierTry(attempt=1, reason="its node stopped responding"),)


@pytest.mark.slow
def test_ending_the_node_in_order_gives_the_work_to_the_next(stack, running):
    family = stack.descendants("alpha")
    assert stack.stop("alpha") == 0
    assert not alive(family)
    stack.start_node("beta")
    assert_passed_once(finish(running, stack))
    assert running.attempt == 1, "a planned stop costs no try"


@pytest.mark.slow
def test_a_cancelled_evaluation_frees_the_slot_for_the_next(stack, running, author):
    following = evaluation_of(submit(author, mode="check"))
    actions.cancel_evaluation(running, by=author)
    assert finish(following, stack).verdict == "PASSED"
    running.refresh_from_db()
    assert running.state == State.CANCELLED
    assert not running.reports.exists()
    wait_until(lambda: Slot.objects.get().state == "free", what="the slot is free")
