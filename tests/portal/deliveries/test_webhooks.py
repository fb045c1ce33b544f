"""Webhooks against a real listener: signed, tried again, given up, logged."""

import hashlib
import hmac
import json
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone
from hypothesis import given, strategies

from portal.accounts.models import User
from portal.core.errors import Refusal
from portal.deliveries import actions, outbound_http, sending
from portal.deliveries.models import Delivery, Endpoint
from portal.deliveries.outbound_http import is_public
from portal.deliveries.sending import BACK_OFF_S, DELIVERY_TTL, DeliveryWorker, deliver_batch, due_endpoints
from tests.portal.deliveries.serving import deliver_due
from tests.portal.runs.rows import add, end, line, make_run
from tests.stack import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(alice, node, listener):
    """A webhook of alice's organisation, and a run of which it is to get one event."""
    run = make_run(alice)
    webhook = actions.add_webhook(run.model.organisation, url=listener.url, events=["run.completed"], by=alice)
    end(add(run, line()).results[0].attempt, node)
    return webhook, run


def test_an_event_is_sent_once_and_signed(told, listener):
    webhook, run = told
    assert deliver_due(timezone.now()) == 1
    assert deliver_due(timezone.now() + timedelta(days=1)) == 0
    [(_, headers, body)] = listener.heard
    stamp, value = (part.partition("=")[2] for part in headers["X-Pkb-Signature"].split(","))
    expected = hmac.new(webhook.secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert value == expected
    assert headers["X-Pkb-Event"] == "run.completed"
    assert json.loads(body)["run"] == str(run.pk)
    [delivery] = Delivery.objects.all()
    assert (delivery.state, delivery.tries, delivery.answer_status) == ("delivered", 1, 204)


def test_a_refusal_is_tried_again_later_and_later_and_then_given_up(told, listener):
    listener.status = 500
    now = timezone.now()
    for number, wait in enumerate((*BACK_OFF_S, None), start=1):
        assert deliver_due(now) == 1
        delivery = Delivery.objects.get()
        assert (delivery.tries, delivery.answer_status) == (number, 500)
        if wait is not None:
            assert delivery.state == "waiting"
            assert timedelta(seconds=wait - 60) < delivery.next_try_at - timezone.now() <= timedelta(seconds=wait)
            now = delivery.next_try_at
    assert (delivery.state, delivery.next_try_at) == ("given_up", None)
    # The same delivery has the same name in every try, so that a receiver can recognise it.
    assert len({headers["X-Pkb-Delivery"] for _, headers, _ in listener.heard}) == 1


def test_a_redirect_is_not_followed(told, listener):
    listener.status = 302
    deliver_due(timezone.now())
    assert len(listener.heard) == 1
    assert Delivery.objects.get().error == "answered 302 Found"


def test_addresses_inside_the_operators_network_get_nothing(told, listener, settings):
    settings.WEBHOOKS_TO_PRIVATE_ADDRESSES = False
    webhook, _ = told
    type(webhook).objects.update(url=listener.url.replace("http://", "https://"))
    deliver_due(timezone.now())
    assert listener.heard == []
    assert Delivery.objects.get().error == "127.0.0.1 does not lead to a public address"


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "169.254.169.254", "224.0.0.1", "::1", "::127.0.0.1", "::ffff:10.0.0.1", "fe80::1"),
        *("fec0::1", "fd00::1", "ff0e::1", "64:ff9b::7f00:1", "2002:7f00:1::", "fe80::1%lo", "2606:4700::1%lo"),
        *("192.0.0.192", "192.88.99.1", "255.255.255.255", "::ffff:0:127.0.0.1", "2606:4700::5efe:127.0.0.1"),
        *("2606:4700::200:5efe:10.0.0.1", "2620:4f:8000::1", "3fff::1", "5f00::1", "100:0:0:1::1"),
    ],
)
def test_an_address_that_leads_inside_is_not_public_however_written(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "192.0.1.1", "2606:4700:4700::1111", "2001:4860:4860::8888", "3ffe::1"])
def test_an_address_of_the_public_internet_is_public(address):
    assert is_public(address)


@given(strategies.ip_addresses())
def test_what_python_takes_for_private_is_never_public(address):
    assert address.is_global or not is_public(str(address))


def test_a_name_that_cannot_be_looked_up_keeps_nobody_else_waiting(told, alice, listener):
    """`a..b` is no name that IDNA can write, which is neither an OSError nor an HTTP error."""
    webhook, _ = told
    webhook.url = "https://a..b/"
    webhook.save()
    assert deliver_due(timezone.now()) == 1
    [delivery] = Delivery.objects.all()
    assert (delivery.state, delivery.tries) == ("waiting", 1)
    assert "label" in delivery.error


def test_what_the_far_end_writes_is_kept_without_control_characters(told, listener):
    """PostgreSQL takes no NUL in a text."""
    listener.status, listener.reason = 500, "no\0\x1b[31m"
    deliver_due(timezone.now())
    assert Delivery.objects.get().error == "answered 500 no??[31m"


def test_an_answer_that_trickles_in_is_cut_off(told, listener, monkeypatch):
    monkeypatch.setattr(outbound_http, "WHOLE_TRY_S", 0.2)
    listener.trickles = True
    deliver_due(timezone.now())
    [delivery] = Delivery.objects.all()
    assert (delivery.state, delivery.tries, delivery.answer_status) == ("waiting", 1, None)


def test_a_claim_that_came_to_nothing_is_due_again(told, monkeypatch):
    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(outbound_http, "post", dies)
    now = timezone.now()
    [turn] = due_endpoints(now, limit=10)
    with pytest.raises(KeyboardInterrupt):
        deliver_batch(turn, now)
    assert deliver_batch(turn, now) == 0
    assert due_endpoints(now, limit=10) == []
    assert len(due_endpoints(now + timedelta(seconds=61), limit=10)) == 1


def test_a_webhook_that_fails_is_left_alone_with_all_that_waits_for_it(told, listener, node):
    webhook, run = told
    listener.status = 500
    end(add(run, line(sample=1)).results[0].attempt, node)
    now = timezone.now()
    # Two deliveries are due, and one failure is enough to know.
    assert deliver_due(now) == 1
    assert deliver_due(now + timedelta(seconds=5)) == 0
    listener.status = 204
    assert deliver_due(now + timedelta(seconds=60)) == 2
    webhook.refresh_from_db()
    assert webhook.failures == 0
    assert set(webhook.deliveries.values_list("state", flat=True)) == {"delivered"}


def test_what_nobody_heard_within_a_day_is_given_up_without_trying_each(told, listener):
    Delivery.objects.update(created_at=timezone.now() - DELIVERY_TTL - timedelta(minutes=1))
    assert deliver_due(timezone.now()) == 0
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.error, listener.heard) == ("given_up", "It was not delivered within a day.", [])


def test_a_test_is_sent_at_once_and_once_however_long_the_webhook_is_left_alone(told, alice, listener):
    webhook, _ = told
    listener.status = 500
    now = timezone.now()
    deliver_due(now)
    delivery = actions.send_test(webhook, by=alice)
    with pytest.raises(Refusal) as refused:
        actions.send_test(webhook, by=alice)
    assert refused.value.status == 409
    assert deliver_due(now + timedelta(seconds=1)) == 1
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries, delivery.answer_status) == ("given_up", 1, 500)
    _, headers, body = listener.heard[-1]
    assert headers["X-Pkb-Event"] == json.loads(body)["kind"] == "webhook.test"
    webhook.refresh_from_db()
    assert webhook.failures == 1
    # One that is heard shows that the address answers again, and what waits follows.
    listener.status = 204
    actions.send_test(webhook, by=alice)
    assert deliver_due(now + timedelta(seconds=2)) == 1
    webhook.refresh_from_db()
    assert webhook.failures == 0
    assert deliver_due(now + timedelta(seconds=60)) == 1


class Silent(BaseHTTPRequestHandler):
    """Keeps whoever asks waiting until the server is let go."""

    def do_POST(self):
        self.server.asked.append(self.path)
        self.server.let_go.wait(30)

    def log_message(self, *_):
        pass


@pytest.fixture
def silent():
    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        server.asked, server.let_go = [], Event()
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.let_go.set()
        server.shutdown()
        thread.join()


@pytest.mark.django_db(transaction=True)
def test_receivers_that_do_not_answer_keep_nobody_else_waiting(told, alice, node, listener, silent):
    """All deliveries that one account may have under way are stuck, and another account's webhook still gets its
    event."""
    _, run = told
    Endpoint.objects.all().delete()
    organisation = run.model.organisation
    for number in range(sending.PER_ACCOUNT + 2):
        url = f"http://127.0.0.1:{silent.server_port}/{number}"
        actions.add_webhook(organisation, url=url, events=["attempt.ended"], by=alice)
    end(add(run, line(sample=1)).results[0].attempt, node)
    telling = DeliveryWorker()
    assert telling.look() == sending.PER_ACCOUNT
    wait_until(lambda: len(silent.asked) == sending.PER_ACCOUNT, what="the silent ones are asked", seconds=20)

    carol = User.objects.create_user("carol")
    hers = make_run(carol)
    actions.add_webhook(hers.model.organisation, url=listener.url, events=["attempt.ended"], by=carol)
    end(add(hers, line()).results[0].attempt, node)
    assert telling.look() == 1
    wait_until(lambda: Delivery.objects.filter(state="delivered").exists(), what="carol's is told", seconds=20)
    assert len(listener.heard) == 1
    assert telling.look() == 0
    silent.let_go.set()
    wait_until(lambda: not telling.is_busy, what="all turns have ended", seconds=20)


def test_an_endpoint_belongs_to_one_owner(told, alice):
    webhook, _ = told
    for owners in ({"organisation": webhook.organisation, "account": alice}, {}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Endpoint.objects.create(**owners)


def test_webhooks_and_channels_of_one_person_count_together_and_closed_accounts_are_left_out(told, alice, bob):
    webhook, _ = told
    own, his = (
        actions.add_channel(user, form="slack", url="https://a.example/", kinds=["verdict"]) for user in (alice, bob)
    )
    for endpoint in (own, his):
        Delivery.objects.create(endpoint=endpoint)
    now = timezone.now()
    assert {due.pk: due.payer for due in due_endpoints(now, limit=9)} == {
        webhook.pk: alice.pk, own.pk: alice.pk, his.pk: bob.pk,
    }  # fmt: skip
    assert [due.pk for due in due_endpoints(now, limit=9, without=[alice.pk])] == [his.pk]
    assert {due.pk for due in due_endpoints(now, limit=9, busy=[his.pk])} == {webhook.pk, own.pk}
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert {due.pk for due in due_endpoints(now, limit=9)} == {webhook.pk, own.pk}
    webhook.organisation.sponsor = None
    webhook.organisation.save()
    assert {due.pk: due.payer for due in due_endpoints(now, limit=9)} == {
        webhook.pk: -webhook.organisation.pk, own.pk: alice.pk,
    }  # fmt: skip


def test_whoever_gets_much_goes_behind_whoever_waits_longer_since_their_turn(told, node, listener):
    """A receiver that takes its time, with a long row of old events, keeps nobody from their turn."""
    busy, _ = told
    now = timezone.now()
    carol = User.objects.create_user("carol")
    hers = make_run(carol)
    quiet = actions.add_webhook(hers.model.organisation, url=listener.url, events=["attempt.ended"], by=carol)
    end(add(hers, line()).results[0].attempt, node)
    Endpoint.objects.filter(pk=busy.pk).update(free_at=now - timedelta(seconds=1))
    Delivery.objects.filter(endpoint=busy).update(next_try_at=now - timedelta(hours=1))
    Delivery.objects.filter(endpoint=quiet).update(next_try_at=now - timedelta(seconds=30))
    Endpoint.objects.filter(pk=quiet.pk).update(free_at=now - timedelta(hours=2))
    assert [turn.pk for turn in due_endpoints(now, limit=2)] == [quiet.pk, busy.pk]


def test_an_organisation_has_only_so_many_tests_sent(told, alice, monkeypatch):
    webhook, _ = told
    monkeypatch.setattr("portal.deliveries.actions.TESTS_PER_HOUR", 1)
    actions.send_test(webhook, by=alice)
    other = actions.add_webhook(webhook.organisation, url=webhook.url, events=["run.completed"], by=alice)
    with pytest.raises(Refusal) as refused:
        actions.send_test(other, by=alice)
    assert refused.value.status == 429


def test_a_removed_webhook_gets_nothing_more(told, alice, listener):
    actions.remove_endpoint(told[0], by=alice)
    assert deliver_due(timezone.now()) == 0
    assert listener.heard == []


@pytest.mark.parametrize(
    "url",
    [
        "http://0*",
        "https://a:99999/",
        "https://a\n",
        "ftp://a/",
        "https://user:pw@a/",
        "https://",
        "https://a/#x",
        "https://a b/",
        "x",
    ],
)
def test_what_is_no_address_is_refused(told, alice, url):
    with pytest.raises(Refusal) as refused:
        actions.add_webhook(told[0].organisation, url=url, events=["run.completed"], by=alice)
    assert refused.value.field == "url"


@pytest.mark.parametrize("url", ["https://a.example", "https://[2606:4700::1]:65001/x?y=%20", "http://127.0.0.1:1/?q"])
def test_an_ordinary_address_is_taken(told, alice, url):
    assert actions.add_webhook(told[0].organisation, url=url, events=["run.completed"], by=alice).url == url


def test_members_who_do_not_own_add_no_webhooks(told, bob):
    with pytest.raises(Refusal) as refused:
        actions.add_webhook(told[0].organisation, url="https://a/", events=["run.completed"], by=bob)
    assert refused.value.status == 403
