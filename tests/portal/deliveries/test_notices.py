"""The notices that people get, in the form of their channel, against receivers that really listen."""

import json
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.urls import reverse
from django.utils import timezone

from evaluator.contract import Verdict
from portal.accounts.models import User
from portal.core.errors import Refusal
from portal.deliveries import actions, rendering, sending
from portal.deliveries.models import Delivery, DeliveryState, Endpoint, Notice, NoticeKind
from portal.deliveries.sending import BACK_OFF_S, signature
from portal.submissions import actions as submissions
from portal.submissions.models import Evaluation, State
from tests.portal.deliveries.serving import deliver_due
from tests.portal.factories import delivery_of, evaluation_of, submit
from tests.portal.runs.rows import add, end, line, make_run

pytestmark = pytest.mark.django_db
PROFILE = "h100x4"
ALL = NoticeKind.values


def channel(user, url="https://a.example/hook", form="slack", kinds=ALL):
    return actions.add_channel(user, form=form, url=url, kinds=kinds)


def judged(author, node, *, low=2.0, verdict=Verdict.PASSED):
    submission = submit(author, profile=PROFILE, visibility="public")
    evaluation = evaluation_of(submission)
    now = timezone.now()
    Evaluation.objects.filter(pk=evaluation.pk).update(
        state=State.RUNNING, lease=f"lease-{evaluation.pk}", node=node, slot_index=0, started_at=now
    )
    assert submissions.record_delivery(delivery_of(evaluation, verdict=verdict, low=low), now)
    return submission


def soon():
    """A moment at which what has just happened is due."""
    return timezone.now() + sending.BATCH_WINDOW


def told(user):
    return list(Notice.objects.filter(endpoint__account=user).values_list("kind", "text"))


# What is noted, and for whom


def test_a_notice_of_a_verdict_goes_to_its_author_alone(alice, bob, node):
    channel(alice)
    channel(bob)
    submission = judged(alice, node, low=2.0)
    [(kind, text)] = told(alice)
    assert kind == "verdict"
    assert "Passed, 2.1× (2.00 to 2.20) against the reference" in text  # noqa: RUF001 - the multiplication sign is meant
    assert Notice.objects.get().path == f"/submissions/{submission.pk}/"
    assert told(bob) == []


def test_a_record_beaten_and_a_place_lost_are_told_once_each(alice, bob, node, django_user_model):
    carol = django_user_model.objects.create_user("carol")
    for user, low in ((alice, 3.0), (bob, 2.0), (carol, 1.5)):
        judged(user, node, low=low)
        channel(user, kinds=["record_beaten", "place_lost"])
    judged(carol, node, low=4.0)
    assert told(alice) == [
        ("record_beaten", f"carol beat your record on {BOARD}: 4.1× over the reference, yours was 3.1×.")  # noqa: RUF001 - the multiplication sign is meant
    ]
    assert told(bob) == [("place_lost", f"carol passed you on {BOARD}. You are now in place 3.")]
    assert told(carol) == []
    # Bettering oneself at the top passes nobody.
    judged(carol, node, low=5.0)
    assert len(told(alice)) == len(told(bob)) == 1


BOARD = "All-reduce (sum) of one matrix on h100x4"


def test_what_is_derived_anew_sends_no_notice(alice, bob, node, operator):
    first = judged(alice, node, low=3.0)
    judged(bob, node, low=2.0)
    for user in (alice, bob):
        channel(user)
    submissions.quarantine(first, reason="A test.", by=operator)
    submissions.lift_quarantine(first, reason="A test.", by=operator)
    assert told(alice) == told(bob) == []


def test_attempts_of_a_run_send_no_notice(alice, node):
    channel(alice)
    end(add(make_run(alice), line()).results[0].attempt, node)
    assert deliver_due(soon()) == 0


def test_what_is_switched_off_is_not_noted_and_not_sent(alice, node, listener):
    own = channel(alice, url=listener.url)
    judged(alice, node)
    actions.set_kinds(own, kinds=["place_lost"])
    judged(alice, node)
    deliver_due(soon())
    assert listener.heard == []


# What is sent


def test_a_burst_is_one_message_and_the_next_waits(alice, node, listener, settings):
    settings.MAX_QUEUED_PER_AUTHOR = 100
    channel(alice, url=listener.url)
    for _ in range(30):
        judged(alice, node, verdict=Verdict.WRONG_RESULT)
    assert deliver_due(soon()) == 1
    text = json.loads(listener.heard[0][2])["text"]
    assert "30 notices" in text
    assert text.count("Wrong result") == rendering.LINES
    assert text.endswith("and 10 more")
    judged(alice, node)
    assert deliver_due(soon()) == 0
    assert deliver_due(soon() + sending.COOLDOWN) == 1
    assert Delivery.objects.filter(state=DeliveryState.DELIVERED).count() == 2


def test_slack_and_discord_and_programs_get_their_own_form(alice, node, listener):
    for form in ("slack", "discord", "signed"):
        channel(alice, url=f"{listener.url}/{form}", form=form)
    judged(alice, node)
    assert deliver_due(soon()) == 3
    heard = {path.rsplit("/", 1)[1]: (headers, body) for path, headers, body in listener.heard}
    assert json.loads(heard["slack"][1])["text"].startswith("*ParallelKernelBench: 1 notice*\n• <http")
    discord = json.loads(heard["discord"][1])
    assert discord["allowed_mentions"] == {"parse": []}
    assert len(discord["content"]) <= 2000
    headers, body = heard["signed"]
    assert [one["kind"] for one in json.loads(body)["notices"]] == ["verdict"]
    stamp = int(headers["X-PKB-Signature"].split(",")[0].removeprefix("t="))
    secret = Endpoint.objects.get(form="signed").secret
    assert headers["X-PKB-Signature"] == signature(secret, body, timestamp=stamp)


def test_names_mention_and_format_nothing():
    message = rendering.Message(
        heading="h", lines=(("<!channel> @everyone **x** [a](b) |", "https://a.example/"),), others=0
    )
    slack = json.loads(rendering.for_slack(message))["text"]
    assert "<!channel>" not in slack
    discord = json.loads(rendering.for_discord(message))
    assert "**x**" not in discord["content"]
    assert "[a](b)" not in discord["content"]


def test_discord_never_gets_more_than_it_takes():
    lines = tuple(("*" * 300, f"https://a.example/{number}") for number in range(20))
    content = json.loads(rendering.for_discord(rendering.Message(heading="h", lines=lines, others=5)))["content"]
    assert len(content) <= 2000
    assert content.endswith("more")


def test_mail_goes_to_the_confirmed_address_alone(alice, node, mailbox):
    with pytest.raises(Refusal, match="no confirmed mail address"):
        channel(alice, form="mail")
    own = EmailAddress.objects.create(user=alice, email="alice@example.org", verified=True, primary=True)
    channel(alice, form="mail", url="mallory@example.org")
    judged(alice, node)
    assert deliver_due(soon()) == 1
    [mail] = mailbox
    assert (mail["To"], mail["Subject"]) == ("alice@example.org", "ParallelKernelBench: 1 notice")
    assert "2.1× (2.00 to 2.20) against the reference" in mail.get_content()  # noqa: RUF001 - the multiplication sign is meant
    own.delete()
    judged(alice, node)
    deliver_due(soon() + sending.COOLDOWN)
    assert len(mailbox) == 1


def test_without_mail_set_up_nobody_is_offered_it(alice, settings, client):
    settings.EMAIL_URL = ""
    with pytest.raises(Refusal, match="sends no mail"):
        channel(alice, form="mail")
    client.force_login(alice)
    assert 'value="mail"' not in client.get(reverse("notices:notices")).content.decode()


def test_a_channel_that_fails_is_left_alone_for_longer_and_longer(alice, node, listener):
    listener.status = 500
    own = channel(alice, url=listener.url)
    judged(alice, node)
    now = soon()
    for wait_s in BACK_OFF_S:
        assert deliver_due(now) == 1
        own.refresh_from_db()
        assert own.free_at > timezone.now() + timedelta(seconds=wait_s - 1)
        now = max(now, own.free_at) + timedelta(seconds=1)
        Endpoint.objects.filter(pk=own.pk).update(free_at=now)
        Delivery.objects.update(next_try_at=now)
    deliver_due(now)
    assert Delivery.objects.get().state == DeliveryState.GIVEN_UP
    assert "500" in Delivery.objects.get().error


def test_a_redirect_is_not_followed_and_private_addresses_hear_nothing(alice, node, listener, settings):
    listener.status = 302
    channel(alice, url=listener.url)
    judged(alice, node)
    deliver_due(soon())
    assert "302" in Delivery.objects.get().error
    settings.WEBHOOKS_TO_PRIVATE_ADDRESSES = False
    with pytest.raises(Refusal, match="not an address for a webhook"):
        channel(alice, url=f"{listener.url}/plain-http")
    for url in ("https://169.254.169.254/latest/meta-data/", "https://localhost/", "https://[::ffff:127.0.0.1]/"):
        own = channel(alice, url=url)
        actions.send_test(own, by=alice)
        deliver_due(soon())
        assert "does not lead to a public address" in own.deliveries.get().error
        actions.remove_endpoint(own, by=alice)
    assert len(listener.heard) == 1


def test_a_test_is_sent_at_once_and_only_so_often(alice, listener):
    own = channel(alice, url=listener.url)
    Endpoint.objects.filter(pk=own.pk).update(free_at=timezone.now() + timedelta(hours=1))
    actions.send_test(own, by=alice)
    with pytest.raises(Refusal, match="being sent already"):
        actions.send_test(own, by=alice)
    assert deliver_due(soon()) == 1
    assert "This is a test" in json.loads(listener.heard[0][2])["text"]
    Delivery.objects.bulk_create(
        Delivery(endpoint=own, is_test=True, state=DeliveryState.DELIVERED) for _ in range(actions.TESTS_PER_HOUR)
    )
    with pytest.raises(Refusal) as caught:
        actions.send_test(own, by=alice)
    assert caught.value.status == 429


def test_a_test_that_a_channel_accepts_ends_the_wait_after_its_failures_but_no_other(alice, node, listener):
    listener.status = 500
    own = channel(alice, url=listener.url)
    judged(alice, node)
    assert deliver_due(soon()) == 1
    listener.status = 204
    actions.send_test(own, by=alice)
    assert deliver_due(soon()) == 1
    own.refresh_from_db()
    assert (own.failures, own.free_at <= timezone.now()) == (0, True)
    assert deliver_due(soon() + timedelta(seconds=BACK_OFF_S[0])) == 1
    # After a message that was accepted the channel is left alone, whatever a test says.
    actions.send_test(own, by=alice)
    assert deliver_due(soon()) == 1
    own.refresh_from_db()
    assert own.free_at > timezone.now() + sending.COOLDOWN / 2


def test_a_message_that_nobody_took_within_a_day_is_given_up(alice, node, listener):
    listener.status = 500
    channel(alice, url=listener.url)
    judged(alice, node)
    deliver_due(soon())
    assert deliver_due(timezone.now() + sending.DELIVERY_TTL + timedelta(minutes=1)) == 0
    assert Delivery.objects.get().error == "It was not delivered within a day."
    assert len(listener.heard) == 1


def test_a_closed_account_hears_nothing(alice, node, listener):
    channel(alice, url=listener.url)
    judged(alice, node)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert deliver_due(soon()) == 0


# The page


def test_one_page_adds_switches_tries_and_removes(alice, bob, client, listener):
    client.force_login(alice)
    page = reverse("notices:notices")
    answer = client.post(page, {"form": "signed", "url": listener.url, "kinds": ["verdict", "record_beaten"]})
    assert "whsec_" in answer.content.decode()
    assert "whsec_" not in client.get(page).content.decode()
    [own] = Endpoint.objects.all()
    assert own.kinds == ["verdict", "record_beaten"]
    client.post(reverse("notices:kinds", args=[own.pk]), {"kinds": ["place_lost"]})
    client.post(reverse("notices:test", args=[own.pk]))
    own.refresh_from_db()
    assert own.kinds == ["place_lost"]
    deliver_due(timezone.now())
    assert "delivered" in client.get(page).content.decode()
    client.force_login(bob)
    for name in ("kinds", "test", "remove"):
        assert client.post(reverse(f"notices:{name}", args=[own.pk])).status_code == 404
    client.force_login(alice)
    client.post(reverse("notices:remove", args=[own.pk]))
    assert "No channel yet" in client.get(page).content.decode()


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"form": "fax"}, 422, "no such type of channel"),
        ({"url": "javascript:alert(1)"}, 422, "not an address for a webhook"),
        ({"url": "https://user:secret@a.example/"}, 422, "not an address for a webhook"),
        ({"kinds": ["gossip"]}, 422, "no such kind"),
    ],
)
def test_bad_channels_are_refused_beside_the_form(alice, client, fields, status, words):
    client.force_login(alice)
    sent = {"form": "slack", "url": "https://a.example/", "kinds": ["verdict"], **fields}
    answer = client.post(reverse("notices:notices"), sent)
    assert (answer.status_code, words in answer.content.decode()) == (status, True)
    assert not Endpoint.objects.exists()


def test_channels_are_few_and_none_twice(alice):
    for number in range(actions.MAX_CHANNELS):
        channel(alice, url=f"https://a.example/{number}")
    for number in (0, 9):
        with pytest.raises(Refusal) as caught:
            channel(alice, url=f"https://a.example/{number}")
        assert caught.value.status == 409
