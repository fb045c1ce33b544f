"""Work that no node online can judge: said beforehand and while it waits, ended after a day, and free."""

from datetime import timedelta

import pytest
from django.urls import reverse

from evaluator.hardware.profiles import profiles
from portal.dispatcher.leases import end_unserved, look_at_nodes
from portal.submissions.models import Evaluation, GpuUse, ProfileState, State
from tests.portal.factories import evaluation_of, submit

pytestmark = pytest.mark.django_db
ALONE = "h200x8-nomc"


@pytest.fixture
def day_later(now, node):
    """The dispatcher looks every nine minutes for 25 hours, the node online all the time; the moment after it."""

    def look_on():
        moment = now
        while moment < now + timedelta(hours=25):
            type(node).objects.filter(pk=node.pk).update(seen_at=moment)
            look_at_nodes(moment)
            moment += timedelta(minutes=9)
        return moment

    return look_on


def waiting(author, **changes):
    return evaluation_of(submit(author, **changes))


def text_of(client, evaluation):
    return client.get(reverse("submissions:detail", args=[evaluation.submission_id])).content.decode()


def test_what_no_node_serves_for_a_day_ends_with_its_reason_and_costs_nothing(alice, day_later, client):
    evaluation = waiting(alice, profile=ALONE)
    later = day_later()
    assert end_unserved(later) == 1
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.verdict, evaluation.finished_at) == (State.UNSERVED, "", later)
    assert "No node has served h200x8-nomc for 24 hours" in evaluation.message
    assert GpuUse.objects.get().used_gpu_s == 0
    client.force_login(alice)
    page = text_of(client, evaluation)
    assert "Not judged: no node" in page
    assert "It cost nothing." in page


def test_nodes_are_looked_at_once_a_minute_also_where_a_profile_was_removed(now):
    ProfileState.objects.create(profile="b300x8", looked_at=now)
    assert [look_at_nodes(now + timedelta(seconds=seconds)) for seconds in (0, 2, 61)] == [True, False, True]


@pytest.mark.parametrize("lacks", [{"backends": []}, {"revisions": {}}])
def test_what_the_nodes_of_its_profile_cannot_judge_ends_too(alice, node, day_later, client, lacks):
    type(node).objects.update(**lacks)
    evaluation = waiting(alice)
    look_at_nodes(node.seen_at)
    client.force_login(alice)
    assert "No node that is online for cpux2 can judge it" in text_of(client, evaluation)
    answer = client.get(reverse("api:submission", args=[evaluation.submission_id])).json()
    assert answer["evaluation"]["queue"]["unable_since"]
    assert answer["evaluation"]["queue"]["expected_wait_s"] is None
    assert end_unserved(day_later()) == 1
    evaluation.refresh_from_db()
    assert "no node of cpux2 could judge a ranked submission in the backend pytorch" in evaluation.message


def test_a_node_that_could_have_judged_it_meanwhile_begins_the_day_anew(alice, node, now, day_later):
    evaluation = waiting(alice, profile=ALONE)
    later = day_later()
    type(node).objects.filter(pk=node.pk).update(seen_at=later)
    node.slots.update(profile=ALONE)
    look_at_nodes(later)
    evaluation.refresh_from_db()
    assert (evaluation.unable_since, end_unserved(later)) == (None, 0)


def test_what_can_be_judged_or_is_paused_waits_on(alice, day_later):
    waiting(alice)
    ProfileState.objects.create(profile="h100x4", is_paused=True)
    waiting(alice, profile="h100x4")
    assert end_unserved(day_later()) == 0


def test_what_has_waited_for_less_than_a_day_waits_on(alice, day_later):
    later = day_later()
    waiting(alice, profile=ALONE)
    look_at_nodes(later + timedelta(minutes=2))
    assert end_unserved(later + timedelta(hours=23)) == 0


def test_a_dispatcher_that_was_away_ends_nothing_on_its_return(alice, day_later):
    waiting(alice, profile=ALONE)
    back = day_later() + timedelta(hours=1)
    look_at_nodes(back)
    assert end_unserved(back) == 0
    assert ProfileState.objects.count() == len(profiles())
    assert Evaluation.objects.get().unable_since == back


def test_it_is_said_beforehand(alice, node, now, client):
    look_at_nodes(now)
    client.force_login(alice)
    page = client.get(reverse("submissions:new", args=["allreduce"])).content.decode()
    assert "none is known to have served it" in page
    assert "ends unjudged and without cost if no node takes it within 24 hours" in page
    assert "GPU time: what an evaluation costs and what you have left" in page
