"""How much of the last hour nodes judged: on the page and as data."""

from datetime import timedelta

import pytest

from evaluator.contract import SlotState
from portal.nodes.models import Slot
from portal.submissions import queue
from portal.submissions.models import Evaluation, Report, State
from portal.submissions.queue import use_of_nodes
from tests.portal.factories import evaluation_of, submit

pytestmark = pytest.mark.django_db


def finished(author, node, now, *, ago_s, took_s, starting_s=None, ranks_wait_s=None):
    """An evaluation that ended `ago_s` seconds before `now` after `took_s` in a slot of `node`."""
    evaluation = evaluation_of(submit(author))
    end = now - timedelta(seconds=ago_s)
    Evaluation.objects.filter(pk=evaluation.pk).update(
        state=State.FINISHED, node=node, slot_index=0, started_at=end - timedelta(seconds=took_s), finished_at=end
    )
    if starting_s is not None:
        stages = [{"stage": "preparing", "seconds": 9.0}, {"stage": "starting", "seconds": starting_s}]
        content = {"stages": stages} | ({} if ranks_wait_s is None else {"ranks_wait_s": ranks_wait_s})
        Report.objects.create(evaluation=evaluation, attempt=1, node_name=node.name, content=content)
    return evaluation


def test_a_node_that_judged_nothing_was_idle(node, now):
    [use] = use_of_nodes(now=now)
    assert (use["node"], use["profile"], use["slots"]) == ("alpha", "cpux2", 1)
    assert (use["judged_share"], use["verdicts"], use["building"], use["built"], use["starting_s"]) == (
        0.0,
        0,
        0,
        0,
        None,
    )


def test_the_share_counts_the_hour_alone_and_is_of_all_slots(alice, node, now):
    Slot.objects.create(node=node, index=1, profile="cpux2", state=SlotState.FREE)
    finished(alice, node, now, ago_s=60, took_s=360, starting_s=2.0, ranks_wait_s=0.5)
    finished(alice, node, now, ago_s=3000, took_s=1200, starting_s=4.0)  # 600 s of it within the hour
    finished(alice, node, now, ago_s=3700, took_s=60, starting_s=50.0)
    running = evaluation_of(submit(alice))
    Evaluation.objects.filter(pk=running.pk).update(
        state=State.RUNNING, node=node, slot_index=1, started_at=now - timedelta(seconds=48)
    )
    [use] = use_of_nodes(now=now)
    assert use["judged_share"] == pytest.approx((360 + 600 + 48) / 7200)
    assert (use["verdicts"], use["starting_s"]) == (2, 3.0)
    assert use["ranks_wait_s"] == 0.5, "a report from before says nothing of it"


def test_what_a_compiler_ended_is_neither_judging_nor_a_verdict_of_a_slot_nor_a_usual_wait(alice, node, now):
    finished(alice, node, now, ago_s=10, took_s=0)
    [use] = use_of_nodes(now=now)
    assert (use["judged_share"], use["verdicts"]) == (0.0, 0)
    waiting = evaluation_of(submit(alice))
    assert queue.position_in_queue(waiting).expected_wait_s is None


def test_what_is_compiled_ahead_is_counted_where_it_waits(alice, node, now):
    states = (State.BUILDING, State.BUILT, State.BUILT)
    for state in states:
        evaluation = evaluation_of(submit(alice))
        Evaluation.objects.filter(pk=evaluation.pk).update(state=state, node=node)
    [use] = use_of_nodes(now=now)
    assert (use["building"], use["built"]) == (1, 2)


def test_the_page_says_it_in_as_many_queries_for_more_work(alice, node, now, client, django_assert_num_queries):
    finished(alice, node, now, ago_s=600, took_s=900, starting_s=2.5, ranks_wait_s=0.7)
    with django_assert_num_queries(5):
        use_of_nodes(now=now)
    for _ in range(2):
        finished(alice, node, now, ago_s=5, took_s=1, starting_s=2.5)
    with django_assert_num_queries(5):
        use_of_nodes(now=now)
    [shown] = use_of_nodes(now=now)
    assert (shown["node"], shown["profile"], shown["verdicts"], shown["starting_s"]) == ("alpha", "cpux2", 3, 2.5)
    assert shown["ranks_wait_s"] == 0.7
    page = client.get("/nodes/").content.decode()
    assert "Use in the last hour" in page
    assert "2.5 s" in page
    assert "0.7 s" in page
