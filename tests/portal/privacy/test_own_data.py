"""Taking one's data along, and deleting one's account, as pages and as rows."""

import io
import json
import uuid
import zipfile

import pytest
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.core.cache import cache
from django.utils import timezone

from evaluator.contract import Delivery
from portal.accounts import actions as accounts
from portal.accounts.models import ApiToken, User
from portal.accounts.organisations import create_organisation
from portal.deliveries import actions as deliveries
from portal.deliveries.models import Endpoint
from portal.ranking.models import Standing
from portal.submissions import actions
from portal.submissions.models import Evaluation, Report, Source, Submission
from tests.portal.pages import scenes
from tests.portal.runs.rows import add, end, join, line, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def as_alice(client, alice):
    """Alice, who has just shown who she is."""
    cache.clear()  # the limits that allauth counts by account
    client.post("/accounts/sign-in/", {"username": "alice", "password": scenes.PASSWORD})
    client.post("/accounts/again/", {"password": scenes.PASSWORD})
    return client


def leave(client, entries="anonymise", username="alice"):
    return client.post("/accounts/delete/", {"entries": entries, "username": username})


def test_the_archive_holds_ones_own_and_no_secret(as_alice, alice, bob, local):
    mine = scenes.judged(alice, local)
    theirs = scenes.submit(bob)
    _, secret = accounts.create_token(alice, name="laptop", scopes=["read"], lifetime_days=1)
    answer = as_alice.post("/accounts/data/")
    assert answer["Content-Disposition"] == 'attachment; filename="parallelkernelbench-alice.zip"'
    archive = zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content)))
    assert json.loads(archive.read("account.json"))["tokens"][0]["name"] == "laptop"
    assert [row["id"] for row in json.loads(archive.read("submissions.json"))] == [str(mine.pk)]
    assert b"all_reduce" in archive.read(f"sources/{mine.pk}/solution.py")
    assert f"reports/{mine.evaluations.get().pk}-1.json" in archive.namelist()
    everything = b"".join(archive.read(name) for name in archive.namelist())
    assert str(theirs.pk).encode() not in everything
    for hidden in (secret, ApiToken.objects.get().digest, alice.password):
        assert hidden.encode() not in everything


def test_leaving_asks_again_who_one_is_and_for_ones_name(client, as_alice, alice):
    assert leave(as_alice, username="bob").status_code == 422
    client.force_login(alice)  # another session, in which nothing was shown
    client.session.flush()
    client.force_login(alice)
    assert leave(client)["Location"].startswith("/accounts/again/")
    alice.refresh_from_db()
    assert alice.left_at is None


def test_nothing_opens_a_deleted_account(client, as_alice, alice):
    _, secret = accounts.create_token(alice, name="laptop", scopes=["read"], lifetime_days=1)
    alice.socialaccount_set.create(provider="lab", uid="alice-at-lab")
    alice.emailaddress_set.create(email="alice@example.org", verified=True)
    deliveries.add_channel(alice, form="slack", url="https://hooks.example.org/", kinds=["verdict"])
    assert leave(as_alice)["Location"] == "/"
    alice.refresh_from_db()
    assert (alice.email, alice.has_usable_password(), alice.left_at is None) == ("", False, False)
    assert client.get("/api/v1/me/").status_code == 401
    assert client.get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
    client.post("/accounts/sign-in/", {"username": alice.username, "password": scenes.PASSWORD})
    assert client.get("/api/v1/me/").status_code == 401
    assert not alice.socialaccount_set.exists()
    assert not alice.emailaddress_set.exists()
    assert not alice.channels.exists()


@pytest.mark.parametrize(
    ("entries", "keeps_name", "stands", "has_source"),
    [("anonymise", False, True, True), ("keep", True, True, True), ("remove", False, False, False)],
)
def test_public_entries_become_what_their_author_chose(  # noqa: PLR0917 - a table of cases
    client, as_alice, alice, local, entries, keeps_name, stands, has_source
):
    public = scenes.judged(alice, local, visibility="public")
    leave(as_alice, entries)
    alice.refresh_from_db()
    board = client.get("/problems/allreduce/leaderboard/?profile=cpux2").content.decode()
    assert ("alice" in board) == keeps_name
    assert (alice.username in board) == stands
    assert (client.get(f"/submissions/{public.pk}/").status_code == 200) == has_source


def test_private_submissions_lose_all_that_was_written(as_alice, alice, local):
    private = scenes.judged(alice, local, mode="check")
    old = private.source_id
    Submission.objects.filter(pk=private.pk).update(note="my secret idea")
    leave(as_alice, "keep")
    private.refresh_from_db()
    assert private.note == ""
    assert "Removed" in private.source.files.files[0].text
    assert not Source.objects.filter(pk=old).exists()
    assert not Report.objects.filter(evaluation__submission=private).exists()


def test_a_source_that_somebody_else_sent_too_stays_theirs(as_alice, alice, bob):
    remark = uuid.uuid4().hex
    mine, theirs = scenes.submit(alice, remark=remark), scenes.submit(bob, remark=remark)
    leave(as_alice)
    theirs.refresh_from_db()
    assert remark in theirs.source.files.files[0].text
    mine.refresh_from_db()
    assert remark not in mine.source.files.files[0].text


def test_what_is_being_judged_is_cancelled_and_its_late_report_dropped(as_alice, alice, local):
    running = scenes.submit(alice)
    evaluation = scenes.lease(running, local)
    waiting = scenes.submit(alice)
    leave(as_alice)
    assert {e.state for e in Evaluation.objects.all()} == {"cancelled"}
    report = Delivery(lease=evaluation.lease, node=local.name, report=scenes.report(evaluation))
    assert not actions.record_delivery(report, timezone.now())
    assert not Report.objects.exists()
    assert not Standing.objects.exists()
    assert waiting.evaluations.get().state == "cancelled"


def test_runs_stay_with_an_organisation_of_others(as_alice, alice, bob, local):
    acme = create_organisation(bob, slug="acme", name="Acme")
    join(acme, alice, by=bob)
    run = make_run(alice, organisation="acme")
    [result] = add(run, line()).results
    end(result.attempt, local)
    leave(as_alice, "remove")
    assert not acme.memberships.filter(user=alice).exists()
    result.attempt.refresh_from_db()
    assert "all_reduce" in result.attempt.submission.source.files.files[0].text


def test_the_webhooks_of_an_organisation_of_ones_own_end(as_alice, alice):
    acme = create_organisation(alice, slug="acme", name="Acme")
    deliveries.add_webhook(acme, url="https://hooks.example.org/", events=["run.completed"], by=alice)
    leave(as_alice)
    assert Endpoint.objects.get().removed_at is not None


def test_the_only_owner_of_an_organisation_with_members_hands_it_over_first(as_alice, alice, bob):
    acme = create_organisation(alice, slug="acme", name="Acme")
    join(acme, bob, by=alice)
    answer = leave(as_alice)
    assert answer.status_code == 409
    assert b"Nobody else owns the organisation acme" in answer.content
    assert User.objects.get(pk=alice.pk).left_at is None


@pytest.mark.parametrize("has_factor", [True, False])
def test_an_operators_account_is_not_deleted_by_a_slip(as_alice, alice, settings, has_factor):
    settings.OPERATORS_NEED_SECOND_FACTOR = True
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    if has_factor:
        TOTP.activate(alice, generate_totp_secret())
    assert leave(as_alice).status_code == 409
    assert User.objects.get(pk=alice.pk).is_staff
