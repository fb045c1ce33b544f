"""The pages of organisations, as an owner, a member, an invited person and a stranger meet them."""

import re

import pytest

from portal.accounts.models import Invitation, Membership, Organisation
from portal.accounts.organisations import create_organisation
from portal.deliveries import actions as deliveries
from portal.deliveries.models import Endpoint
from portal.submissions.models import GpuUse
from tests.portal.runs.rows import add, join, line, make_run

pytestmark = pytest.mark.django_db
ACME = "/organisations/acme/"


@pytest.fixture
def acme(alice):
    return create_organisation(alice, slug="acme", name="Acme")


@pytest.fixture
def as_alice(client, alice):
    client.force_login(alice)
    return client


def page(client, address=ACME, *, status=200):
    response = client.get(address)
    assert response.status_code == status, response.content[-500:]
    return response.content.decode()


def test_from_making_one_to_belonging_to_it(as_alice, alice, bob):
    response = as_alice.post("/organisations/", {"name": "Acme Labs", "slug": "acme"})
    assert response["Location"] == ACME
    as_alice.post(f"{ACME}invite/", {"username": "bob", "role": "member"})
    assert "bob" in page(as_alice)
    as_alice.force_login(bob)
    page(as_alice, status=404)
    for address in ("/organisations/", "/runs/", "/accounts/"):
        assert "alice invites you to Acme Labs" in page(as_alice, address)
    as_alice.post(f"/invitations/{Invitation.objects.get().pk}/accept/")
    shown = page(as_alice)
    assert "you are member" in shown
    # Members read; only owners are shown what only owners may do.
    assert "Invite</button>" not in shown
    assert "Add the webhook" not in shown
    assert as_alice.post(f"{ACME}invite/", {"username": "alice", "role": "member"}).status_code == 403
    as_alice.post(f"{ACME}remove/", {"username": "bob"})
    assert not Membership.objects.filter(user=bob).exists()


def test_an_invitation_is_declined_or_withdrawn(as_alice, alice, bob, acme):
    as_alice.post(f"{ACME}invite/", {"username": "bob", "role": "owner"})
    as_alice.post(f"{ACME}invitations/{Invitation.objects.get().pk}/withdraw/")
    as_alice.post(f"{ACME}invite/", {"username": "bob", "role": "owner"})
    as_alice.force_login(bob)
    as_alice.post(f"/invitations/{Invitation.objects.get(state='open').pk}/decline/")
    assert [row.state for row in Invitation.objects.all()] == ["withdrawn", "declined"]
    assert not acme.memberships.filter(user=bob).exists()


def test_a_role_is_changed_and_the_last_owner_stays(as_alice, alice, bob, acme):
    join(acme, bob, by=alice)
    as_alice.post(f"{ACME}role/", {"username": "bob", "role": "owner"})
    assert acme.memberships.get(user=bob).role == "owner"
    as_alice.post(f"{ACME}remove/", {"username": "bob"})
    response = as_alice.post(f"{ACME}remove/", {"username": "alice"})
    assert response.status_code == 409
    assert "would have no owner" in response.content.decode()


@pytest.mark.parametrize(
    ("address", "data", "words"),
    [
        ("/organisations/", {"name": "x", "slug": "A B"}, "This is not a valid short name"),
        (f"{ACME}invite/", {"username": "nobody", "role": "member"}, "There is no such account"),
        (f"{ACME}webhooks/", {"url": "ftp://a", "events": ["run.completed"]}, "not an address for a webhook"),
        (f"{ACME}webhooks/", {"url": "https://a/"}, "This field is required"),
    ],
)
def test_what_is_wrong_is_said_beside_the_form(as_alice, acme, address, data, words):
    response = as_alice.post(address, data)
    assert response.status_code >= 400
    assert words in response.content.decode()
    assert Organisation.objects.count() == 1
    assert not Endpoint.objects.exists()


def test_a_webhooks_secret_is_shown_once_and_a_test_is_in_its_log(as_alice, acme, alice):
    response = as_alice.post(f"{ACME}webhooks/", {"url": "https://a.example/", "events": ["run.completed"]})
    webhook = Endpoint.objects.get()
    assert webhook.secret in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    address = f"{ACME}webhooks/{webhook.pk}/"
    assert webhook.secret not in page(as_alice) + page(as_alice, address)
    as_alice.post(f"{address}test/")
    assert "webhook.test" in page(as_alice, address)
    assert as_alice.post(f"{address}test/").status_code == 409
    as_alice.post(f"{address}remove/")
    assert "Send a test" not in page(as_alice, address)
    assert "a.example" not in page(as_alice)


def test_what_runs_use_is_shown_by_run(as_alice, acme, alice):
    run = make_run(alice, organisation="acme", profile="h200x8-nomc")
    add(run, line(), line(sample=1))
    GpuUse.objects.filter(pk=GpuUse.objects.first().pk).update(used_gpu_s=1234.0)
    row = page(as_alice).split('id="quota"')[1].split("<tbody>")[1].split("</tbody>")[0]
    assert "writer 1" in row
    assert re.findall(r'<td class="num">([^<]*)</td>', row) == ["1,234", "240"]


def test_a_stranger_reaches_nothing(client, alice, bob, acme):
    webhook = deliveries.add_webhook(acme, url="https://a.example/", events=["run.completed"], by=alice)
    hidden = (ACME, f"{ACME}webhooks/{webhook.pk}/")
    for address in ("/organisations/", *hidden):
        assert client.get(address)["Location"].startswith("/accounts/sign-in/")
    client.force_login(bob)
    for address in hidden:
        page(client, address, status=404)
    for address in ("invite/", "role/", "remove/", "webhooks/", f"webhooks/{webhook.pk}/test/"):
        assert client.post(f"{ACME}{address}", {"username": "alice", "role": "member"}).status_code == 404


def test_the_pages_keep_to_the_policy(as_alice, acme, alice):
    webhook = deliveries.add_webhook(acme, url="https://a.example/", events=["run.completed"], by=alice)
    deliveries.send_test(webhook, by=alice)
    for address in ("/organisations/", ACME, f"{ACME}webhooks/{webhook.pk}/"):
        text = page(as_alice, address)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|\{%|\{\{", text), address
        identities = re.findall(r'\sid="([^"]+)"', text)
        assert sorted(set(identities)) == sorted(identities), address
        for element in re.findall(r"<(?:input|select|textarea)\b[^>]*>", text):
            # Each checkbox stands inside its label.
            if not re.search(r'type="(hidden|checkbox)"|aria-label', element):
                identity = re.search(r'\bid="([^"]+)"', element)
                assert f'for="{identity[1]}"' in text, element
