"""Work for a profile that no node serves: said beforehand, ended after a day, and free."""

from datetime import timedelta

import pytest
from django.urls import reverse

from evaluator.hardware.profiles import profiles
from portal.dispatcher.serving import end_unserved, note_served_profiles
from portal.submissions.models import Evaluation, GpuUse, ProfileQueue, ProfileSwitch, State
from tests.portal.factories import evaluation_of, submit

pytestmark = pytest.mark.django_db
ALONE = "h200x8-nomc"


@pytest.fixture
def watched(node, now):
    """The dispatcher has looked for two days; nobody ever served `ALONE`."""
    note_served_profiles(now)
    ProfileQueue.objects.update(watched_since=now - timedelta(days=2))


def waiting_since(author, moment, **changes):
    evaluation = evaluation_of(submit(author, **changes))
    Evaluation.objects.filter(pk=evaluation.pk).update(queued_at=moment)
    return evaluation


def test_what_no_node_took_in_a_day_ends_with_its_reason_and_costs_nothing(alice, watched, now, client):
    evaluation = waiting_since(alice, now - timedelta(hours=25), profile=ALONE)
    assert end_unserved(now) == 1
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.verdict, evaluation.finished_at) == (State.UNSERVED, "", now)
    assert "No node has served h200x8-nomc for 24 hours" in evaluation.message
    assert GpuUse.objects.get().used_gpu_s == 0
    client.force_login(alice)
    page = client.get(reverse("submissions:detail", args=[evaluation.submission_id])).content.decode()
    assert "Not judged: no node" in page
    assert "It cost nothing." in page


def test_what_waits_for_less_or_for_a_served_or_paused_profile_waits_on(alice, watched, now):
    waiting_since(alice, now - timedelta(hours=23), profile=ALONE)
    waiting_since(alice, now - timedelta(hours=25), profile="cpux2")
    ProfileSwitch.objects.create(profile="h100x4", is_paused=True)
    waiting_since(alice, now - timedelta(hours=25), profile="h100x4")
    assert end_unserved(now) == 0


def test_a_dispatcher_that_was_away_ends_nothing_on_its_return(alice, watched, now):
    waiting_since(alice, now - timedelta(hours=25), profile=ALONE)
    back = now + timedelta(hours=1)
    note_served_profiles(back)
    assert end_unserved(back) == 0
    assert ProfileQueue.objects.count() == len(profiles())


def test_it_is_said_beforehand(alice, watched, client):
    client.force_login(alice)
    page = client.get(reverse("submissions:new", args=["allreduce"])).content.decode()
    assert "none is known to have served it" in page
    assert "ends unjudged and without cost if no node takes it within 24 hours" in page
    assert "GPU time: what an evaluation costs and what you have left" in page
