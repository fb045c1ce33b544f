"""What pages say when something is closed, paused, offline or too much."""

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.catalog.models import ProblemSwitch
from portal.core.errors import Refusal
from portal.nodes.models import Node
from portal.submissions.models import ProfileState
from tests.portal.pages import scenes

SUBMIT = "/problems/allreduce/submit/"


def text_of(client, address):
    return client.get(address).content.decode()


def test_a_paused_queue_is_named_wherever_one_would_wait_for_it(as_alice, alice, local):
    submission = scenes.submit(alice)
    ProfileState.objects.create(profile="cpux2", is_paused=True)
    assert "paused by the operator: evaluations wait" in text_of(as_alice, "/nodes/")
    assert "The operator has paused its queue" in text_of(as_alice, SUBMIT)
    page = text_of(as_alice, reverse("submissions:detail", args=[submission.pk]))
    assert "The submission keeps its position in the queue" in page


def test_a_silent_node_is_shown_as_such_and_work_waits(as_alice, alice, local):
    submission = scenes.submit(alice)
    Node.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    nodes = text_of(as_alice, "/nodes/")
    assert "No heartbeat</span>" in nodes
    assert "no node: evaluations wait" in nodes
    assert "No node is online for cpux2" in text_of(as_alice, reverse("submissions:detail", args=[submission.pk]))


def test_a_machine_without_a_sandbox_says_what_mends_it_where_one_submits(as_alice, local):
    why = "nothing is judged here without a sandbox. To mend it: apt-get install bubblewrap (as root)"
    local.slots.update(state="quarantined", note=why)
    assert f"Its node is online and judges nothing: {why}" in text_of(as_alice, SUBMIT)


def test_a_closed_problem_says_so_on_its_pages_and_offers_no_form(as_alice, db):
    ProblemSwitch.objects.create(slug="allreduce", is_open=False, note="A new revision comes.")
    for address in ("/problems/allreduce/", "/problems/allreduce/leaderboard/"):
        assert "Closed for submissions" in text_of(as_alice, address)
    page = text_of(as_alice, SUBMIT)
    assert "A new revision comes." in page
    assert re.search(r'<button [^>]*id="desk-submit"[^>]* disabled>', page)


@pytest.mark.parametrize("address", ["/leaderboards/people/", "/leaderboards/records/", "/submissions/"])
def test_pages_without_anything_to_show_say_what_to_do(as_alice, address):
    page = text_of(as_alice, address)
    assert any(words in page for words in ("Be the first", "Choose one", "sets one", "start from its starter template"))


def test_a_refusal_that_waiting_cures_says_how_long(rf, db):
    from portal.pages.errors import refusal_page

    request = rf.get("/")
    refused = Refusal(field="", value="", message="Too much.", remedy="Wait.", status=429, retry_after_s=60)
    response = refusal_page(request, refused)
    assert (response.status_code, response["Retry-After"]) == (429, "60")
    assert b"again in about 60 s" in response.content
