"""Nodes of others: boards of their own, never the site's; what a node may report, and on what."""

import io

import pytest
from django.core.management import CommandError, call_command

from evaluator.contract import (
    Backend,
    NodeStatus,
    SandboxLevel,
    SlotState,
    SlotStatus,
)
from portal.accounts.organisations import create_organisation
from portal.core.errors import Refusal
from portal.dispatcher.assign import dispatch_once
from portal.dispatcher.leases import record_heartbeat, revoke
from portal.exports.tables import get_table
from portal.nodes import actions as nodes
from portal.nodes.models import Node, Slot
from portal.ranking import guests
from portal.ranking.actions import rebuild_standings
from portal.ranking.models import Board, PersonStanding, Record, Standing
from portal.seasons.models import Entry
from portal.submissions import actions
from portal.submissions.models import Evaluation, State
from problems import registry
from tests.portal.conftest import NODE_KEY
from tests.portal.factories import bundle, delivery_of, evaluation_of, submit
from tests.portal.telling import tell

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _plain_assets(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.fixture
def owner(bob):
    return create_organisation(bob, slug="acme", name="Acme University")


@pytest.fixture
def guest_key(owner):
    return nodes.register_node("acme-1", owner=owner, allowed_profiles=["cpux2"])


@pytest.fixture
def guest(guest_key, now):
    """Acme's node, heard just now with one free slot."""
    node = Node.objects.get(name="acme-1")
    record_heartbeat(node, status_of("acme-1"), now)
    return node


def status_of(name, *, profiles=("cpux2",), running=()):
    return NodeStatus(
        node=name,
        slots=tuple(SlotStatus(index=i, profile=p, state=SlotState.FREE) for i, p in enumerate(profiles)),
        sandbox=SandboxLevel.FULL,
        backends=(Backend.PYTORCH,),
        revisions={problem.slug: registry.revision(problem.slug) for problem in registry.problems()},
        running=tuple(running),
    )


class Sent(list):
    def __call__(self, node, assignment, *, valid_for_s):  # noqa: ARG002 - as messages send it
        self.append((node, assignment.request.evaluation_id))


def leased(evaluation, now):
    """The evaluation as the dispatcher has sent it."""
    dispatch_once(now, send=Sent())
    evaluation.refresh_from_db()
    assert evaluation.state == State.LEASED
    return evaluation


def judged_by_guest(author, key, now, **report):
    evaluation = leased(evaluation_of(submit(author, node_owner="acme")), now)
    assert tell(delivery_of(evaluation, node="acme-1", **report), key=key, node="acme-1").status_code == 200
    Slot.objects.update(state=SlotState.FREE)
    evaluation.refresh_from_db()
    assert evaluation.state == State.FINISHED
    return evaluation


# Who gets which work


def test_a_guest_gets_only_what_was_sent_to_its_owners_boards(alice, node, guest, now):
    ordinary, theirs = evaluation_of(submit(alice)), evaluation_of(submit(alice, node_owner="acme"))
    sent = Sent()
    dispatch_once(now, send=sent)
    assert sorted(sent) == sorted([("alpha", str(ordinary.pk)), ("acme-1", str(theirs.pk))])


def test_without_a_node_of_the_site_ordinary_work_waits_though_a_guest_is_free(alice, guest, now):
    evaluation_of(submit(alice))
    sent = Sent()
    dispatch_once(now, send=sent)
    assert sent == []


def test_nobodys_source_goes_to_a_guest_unasked(alice, guest):
    assert evaluation_of(submit(alice)).node_owner is None
    for wrong in ("nobody", "ACME"):
        with pytest.raises(Refusal, match="has no guest node"):
            submit(alice, node_owner=wrong)
    with pytest.raises(Refusal, match="has no guest node"):
        submit(alice, node_owner="acme", profile="cpux4")


def test_a_repeated_key_for_other_machines_is_refused(alice, guest):
    files = bundle()
    submit(alice, files=files, idempotency_key="one", node_owner="acme")
    with pytest.raises(Refusal, match="node_owner is"):
        submit(alice, files=files, idempotency_key="one")


def test_a_guest_offers_no_profile_that_it_was_not_registered_for(guest_key, now, caplog):
    status = status_of("acme-1", profiles=("cpux2", "h200x8-nomc"))
    assert tell(status, key=guest_key, node="acme-1").status_code == 200
    assert [slot.profile for slot in Slot.objects.all()] == ["cpux2"]
    assert "h200x8-nomc, which it was not registered for" in caplog.text


def test_a_guest_needs_profiles_that_there_are(owner):
    with pytest.raises(Refusal, match="needs a list of the profiles"):
        nodes.register_node("acme-2", owner=owner)
    with pytest.raises(Refusal, match="no such profile"):
        nodes.register_node("acme-2", owner=owner, allowed_profiles=["h900"])


# What is never mixed


def test_what_a_guest_judged_is_on_none_of_the_sites_boards(alice, guest, guest_key, now, client):
    judged_by_guest(alice, guest_key, now, low=900.5)
    for derived in (Standing, Board, Record, PersonStanding, Entry):
        assert not derived.objects.exists()
    rebuild_standings()
    assert not Standing.objects.exists()
    for page in ("/", "/problems/?profile=cpux2", "/leaderboards/records/", "/leaderboards/people/alice/"):
        assert "900.6" not in client.get(page).content.decode()
    (board,) = guests.boards_of(guest.owner)
    (entry,) = [row["entry"] for row in board[2]]
    assert (entry.submission.author, entry.score_low, entry.node.name) == (alice, 900.5, "acme-1")


def test_a_rejudge_of_a_guests_entry_stays_with_the_guest(alice, guest, guest_key, node, now):
    evaluation = judged_by_guest(alice, guest_key, now)
    (again,) = actions.rejudge([evaluation])
    assert again.node_owner == guest.owner


def test_the_owners_page_says_whose_machines_judged_and_what_that_proves(alice, guest, guest_key, now, client):
    judged_by_guest(alice, guest_key, now, low=2.0)
    page = client.get("/nodes/guests/acme/").content.decode()
    for words in ("Acme University", "What this proves and what it does not", "not judged here", "acme-1"):
        assert words in page
    assert client.get("/nodes/guests/nobody/").status_code == 404
    assert "Acme University" in client.get("/nodes/").content.decode()


def test_the_author_reads_the_mark_on_page_api_and_export(alice, guest, guest_key, now, client):
    evaluation = judged_by_guest(alice, guest_key, now)
    submission = evaluation.submission
    actions.set_visibility(submission, visibility="public", by=alice)
    page = client.get(f"/submissions/{submission.pk}/").content.decode()
    assert "Judged by a guest node of Acme University, not by this site" in page
    told = client.get(f"/api/v1/submissions/{submission.pk}/").json()
    assert told["evaluation"]["node_owner"] == "acme"
    table = get_table("evaluations")
    (row,) = table.rows()
    told = dict(zip([each.name for each in table.columns], row, strict=True))
    assert (told["node"], told["node_owner"]) == ("acme-1", "acme")


def test_the_submit_page_says_who_reads_the_source(alice, guest, client):
    client.force_login(alice)
    page = client.get("/problems/allreduce/submit/").content.decode()
    assert "Acme University&#x27;s guest nodes" in page
    assert "can read the source" in page


def test_without_guests_the_submit_page_asks_nothing(alice, client, db):
    client.force_login(alice)
    assert "Judged by" not in client.get("/problems/allreduce/submit/").content.decode()


# Confirming


@pytest.mark.parametrize(("low", "words"), [(2.1, "Confirmed here"), (1.0, "Not confirmed here")])
def test_the_site_judges_a_leader_itself(alice, guest, guest_key, node, now, client, low, words):  # noqa: PLR0917 - fixtures
    evaluation = judged_by_guest(alice, guest_key, now, low=2.0)
    (here,) = actions.confirm_here([evaluation])
    assert here.node_owner is None
    leased(here, now)
    tell(delivery_of(here, node="alpha", low=low), key=NODE_KEY, node="alpha")
    page = client.get("/nodes/guests/acme/").content.decode()
    assert f"</svg>{words}" in page
    assert [standing.score_low for standing in Standing.objects.all()] == [low]


def test_where_the_site_has_no_such_profile_nothing_is_confirmed(alice, guest, guest_key, now):
    assert actions.confirm_here([judged_by_guest(alice, guest_key, now)]) == []


# Keys. What a node may report on, and what is refused, is in api/test_nodes.py.


def test_a_revoked_node_loses_its_work_and_gets_no_more(alice, guest, guest_key, now):
    evaluation = leased(evaluation_of(submit(alice, node_owner="acme")), now)
    late = delivery_of(evaluation, node="acme-1", low=5.0)
    assert revoke("acme-1", now=now) == 1
    assert tell(late, key=guest_key, node="acme-1").status_code == 410
    evaluation.refresh_from_db()
    assert (evaluation.state, evaluation.attempt, evaluation.node) == (State.QUEUED, 1, None)
    sent = Sent()
    dispatch_once(now, send=sent)
    assert sent == []
    for act in (lambda: nodes.replace_key("acme-1"), lambda: revoke("acme-1", now=now)):
        with pytest.raises(Refusal, match="it was revoked"):
            act()


def test_what_a_revoked_node_judged_stays_and_its_page_says_so(alice, guest, guest_key, now, client):
    judged_by_guest(alice, guest_key, now, low=2.0)
    revoke("acme-1", now=now)
    page = client.get("/nodes/guests/acme/").content.decode()
    assert "key revoked" in page
    assert "alice" in page


def test_commands_register_rotate_and_revoke(owner):
    said = io.StringIO()
    call_command("node_add", "acme-1", "--owner", "acme", "--profile", "cpux2", "--profile", "cpux4", stdout=said)
    node = Node.objects.get()
    assert (node.owner, node.profiles) == (owner, ["cpux2", "cpux4"])
    call_command("node_add", "acme-1", "--new-key", stdout=said)
    assert Node.objects.get().earlier_key_digest == node.key_digest
    call_command("node_add", "acme-1", "--new-key", "--at-once", stdout=said)
    assert Node.objects.get().earlier_key_digest == ""
    call_command("node_revoke", "acme-1", stdout=said)
    assert "broker_credentials.py remove acme-1" in said.getvalue()
    with pytest.raises(CommandError, match="no organisation 'nobody'"):
        call_command("node_add", "x", "--owner", "nobody", "--profile", "cpux2")


def test_evaluations_of_guests_do_not_count_in_the_sites_queue(alice, node, guest, client):
    submit(alice, node_owner="acme")
    profile = {each["name"]: each for each in client.get("/api/v1/profiles/").json()}["cpux2"]
    assert profile["slots_online"] == 1
    assert Evaluation.objects.get().node_owner.slug == "acme"
