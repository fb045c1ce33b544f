"""What an author says of a submission: notes for its readers, and what it is built on."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse

from portal.core.errors import Conflict, Forbidden
from portal.exports.tables import TABLES
from portal.submissions import actions
from portal.submissions.actions.submit import MAX_NOTES
from portal.submissions.models import Submission
from tests.portal.pages import scenes

pytestmark = pytest.mark.django_db
NOTES = "# Idea\n\n**Overlap**, $x^2$.\n\n<script>alert(1)</script> [a](https://a.example) [b](javascript:alert(1))"


def page(client, submission, name="detail"):
    return client.get(reverse(f"submissions:{name}", args=[submission.pk])).content.decode()


def test_notes_come_after_the_verdict_and_everybody_reads_those_of_an_entry(client, alice, bob, local):
    entry = scenes.judged(alice, local)
    client.force_login(alice)
    assert "Write notes" in page(client, entry)
    sent = client.post(reverse("submissions:notes", args=[entry.pk]), {"notes": NOTES, "built_on": ""})
    assert sent.url.endswith(f"/submissions/{entry.pk}/#notes")
    client.force_login(bob)
    shown = page(client, entry)
    for part in (
        "<h3>Idea</h3>",
        "<strong>Overlap</strong>",
        "<msup>",
        '<a rel="nofollow ugc" href="https://a.example"',
    ):
        assert part in shown
    assert "<script>alert(1)" not in shown
    assert 'href="javascript' not in shown
    assert "Edit the notes" not in shown
    assert client.get(reverse("submissions:notes", args=[entry.pk])).status_code == 404
    assert client.get(reverse("api:submission", args=[entry.pk])).json()["notes"] == NOTES


def test_a_public_parent_is_named_and_compared_with(client, alice, bob, local):
    parent = scenes.judged(alice, local, visibility="public")
    Submission.objects.filter(pk=parent.pk).update(note="for alice alone")
    client.force_login(bob)
    started = client.get(reverse("submissions:new", args=["allreduce"]), {"from": parent.pk}).content.decode()
    assert f'name="built_on" value="{parent.pk}"' in started
    child = scenes.judged(bob, local)
    address = f"https://pkb.example/submissions/{parent.pk}/"
    actions.annotate(child, notes="", built_on=address, by=bob)
    compared = reverse("submissions:compare", args=[child.pk]) + f"?with={parent.pk}"
    assert f'href="{compared}"' in page(client, child)
    text = client.get(compared).content.decode()
    assert "by alice" in text
    assert "for alice alone" not in text
    client.logout()
    assert reverse("submissions:detail", args=[parent.pk]) in page(client, child)


def test_a_private_parent_is_its_authors_secret(client, alice, bob, local):
    parent = scenes.judged(alice, local, mode="check")
    child = scenes.judged(alice, local, visibility="public")
    actions.annotate(child, notes="", built_on=str(parent.pk), by=alice)
    names = [column.name for column in TABLES["evaluations"].columns]
    rows = [dict(zip(names, row, strict=True)) for row in TABLES["evaluations"].rows()]
    assert [(row["submission"], row["built_on"]) for row in rows] == [(str(child.pk), None)]
    for reader, known in ((alice, True), (bob, False)):
        client.force_login(reader)
        assert (str(parent.pk) in page(client, child)) == known
        answer = client.get(reverse("api:submission", args=[child.pk])).json()
        assert answer["built_on"] == (str(parent.pk) if known else None)


def test_an_operator_puts_a_public_reason_in_place_of_notes(client, alice, local, operator):
    entry = scenes.judged(alice, local)
    actions.annotate(entry, notes="Buy it at https://a.example", built_on="", by=alice)
    operator.user_permissions.set(Permission.objects.all())
    client.force_login(operator)
    address = reverse("admin:submissions_submission_changelist")
    sent = {"action": "clear_notes", "_selected_action": entry.pk, "confirmed": "1", "reason": "advertising"}
    assert f"Done: {entry}" in client.post(address, sent, follow=True).content.decode()
    client.logout()
    assert "a.example" not in page(client, entry)
    assert "<em>Cleared by an operator:</em> advertising" in page(client, entry)
    with pytest.raises(Forbidden):
        actions.clear_notes(entry, reason="mine", by=alice)


def test_the_reason_stays_until_an_operator_lifts_it(client, alice, local, operator):
    parent, entry = scenes.judged(alice, local), scenes.judged(alice, local)
    actions.annotate(entry, notes="Buy it at https://a.example", built_on="", by=alice)
    actions.clear_notes(entry, reason="advertising", by=operator)
    client.force_login(alice)
    address = reverse("submissions:notes", args=[entry.pk])
    assert "Only operators can lift" in client.get(address).content.decode()
    client.post(address, {"notes": "Buy it", "built_on": str(parent.pk)})
    for notes in ("Buy it", ""):
        api = client.post(reverse("api:notes", args=[entry.pk]), {"notes": notes}, content_type="application/json")
        assert (api.status_code, api.json()["errors"][0]["field"]) == (409, "notes")
    entry.refresh_from_db()
    assert (entry.notes, entry.built_on) == ("*Cleared by an operator:* advertising", parent)
    with pytest.raises(Conflict):
        actions.annotate(parent, notes="*Cleared by an operator:* a rival cheated", built_on="", by=alice)
    operator.user_permissions.set(Permission.objects.all())
    client.force_login(operator)
    sent = {"action": "free_notes", "_selected_action": entry.pk, "confirmed": "1", "reason": "a mistake"}
    client.post(reverse("admin:submissions_submission_changelist"), sent)
    assert LogEntry.objects.get().change_message == "Free notes: a mistake"
    entry.refresh_from_db()
    actions.annotate(entry, notes="Overlap", built_on="", by=alice)
    assert entry.notes == "Overlap"


def test_what_cannot_be_is_refused_with_a_remedy(client, alice, bob, local):
    later = scenes.judged(bob, local, visibility="public")
    private = scenes.judged(bob, local, mode="check")
    other = scenes.submit(alice, problem="allgather")
    own = scenes.judged(alice, local)
    client.force_login(alice)
    address = reverse("submissions:notes", args=[own.pk])
    Submission.objects.filter(pk=later.pk).update(created_at=own.created_at)
    for sent, said in (
        ({"notes": "x" * (MAX_NOTES + 1)}, "4,001 characters"),
        ({"built_on": "the fast one"}, "no such submission"),
        ({"built_on": private.pk}, "no such submission"),
        ({"built_on": other.pk}, "That submission is to allgather"),
        ({"built_on": later.pk}, "not earlier"),
        ({"built_on": own.pk}, "not earlier"),
    ):
        answer = client.post(address, sent)
        assert answer.status_code == 422
        assert said in answer.content.decode()
    api = client.post(
        reverse("api:notes", args=[own.pk]), {"built_on": str(private.pk)}, content_type="application/json"
    )
    assert api.status_code == 422
    assert api.json()["errors"][0]["field"] == "built_on"
    own.refresh_from_db()
    assert (own.notes, own.built_on_id) == ("", None)
