"""Channels of a person: adding, switching kinds on and off, trying and removing them."""

import secrets
from collections.abc import Iterable
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from portal.accounts.actions import lock_account
from portal.accounts.models import User
from portal.notices import mailing
from portal.notices.models import Channel, Form, Message, MessageState, NoticeKind
from portal.refusals import Refusal
from portal.webhooks.posting import address_of

MAX_CHANNELS = 5
TESTS_PER_HOUR = 10
"""Each is a request to an address that may belong to a third party."""


def add_channel(user: User, *, form: str, url: str, kinds: Iterable[str]) -> Channel:
    """Add a channel; the `secret` that signs JSON is shown once by the caller.

    Raises:
        Refusal: form, address or a kind is none, mail cannot be sent to the account (409), or there are too many (409).
    """
    if form not in Form.values:
        remedy = f"Choose one of {', '.join(Form.values)}."
        raise Refusal(field="form", value=form, message="There is no such type of channel.", remedy=remedy)
    chosen = _known(kinds)
    if form == Form.MAIL:
        _require_mail(user)
        url = ""
    else:
        address_of(url)
    with transaction.atomic():
        lock_account(user)  # two requests at once cannot both add the last channel
        kept = user.channels.filter(removed_at=None)
        if kept.filter(form=form, url=url).exists():
            raise _conflict(
                url or form, "You have this channel already.", "Choose the notices of that channel instead."
            )
        if kept.count() >= MAX_CHANNELS:
            raise _conflict(url, f"You have {MAX_CHANNELS} channels, which is the limit.", "Remove a channel first.")
        secret = f"whsec_{secrets.token_urlsafe(32)}"
        return Channel.objects.create(user=user, form=form, url=url, kinds=chosen, secret=secret)


def set_kinds(channel: Channel, *, kinds: Iterable[str]) -> None:
    """Switch on exactly these kinds; pending notices of the others are not sent. Raises Refusal."""
    chosen = _known(kinds)
    with transaction.atomic():
        Channel.objects.filter(pk=channel.pk, removed_at=None).update(kinds=chosen)
        channel.notices.filter(message=None).exclude(kind__in=chosen).delete()


def try_channel(channel: Channel) -> Message:
    """Queue a test: sent once and at once, however often the channel has failed.

    Raises:
        Refusal: another test is on its way (409), or there were enough within the hour (429).
    """
    with transaction.atomic():
        User.objects.select_for_update().only("pk").get(pk=channel.user_id)
        tests = Message.objects.filter(channel__user=channel.user_id, is_test=True)
        if tests.filter(channel=channel, state=MessageState.WAITING).exists():
            raise _conflict(str(channel.pk), "A test is being sent already.", "Its result will appear in the log.")
        if tests.filter(created_at__gt=timezone.now() - timedelta(hours=1)).count() >= TESTS_PER_HOUR:
            raise Refusal(
                field="channel",
                value=str(channel.pk),
                message=f"You have sent {TESTS_PER_HOUR} tests within an hour, which is the limit.",
                remedy="Wait a while. Notices are sent all the same.",
                status=429,
                retry_after_s=600,
            )
        return Message.objects.create(channel=channel, is_test=True)


def remove_channel(channel: Channel) -> None:
    """Stop sending to a channel."""
    Channel.objects.filter(pk=channel.pk, removed_at=None).update(removed_at=timezone.now())
    channel.notices.filter(message=None).delete()
    waiting = channel.messages.filter(state=MessageState.WAITING)
    waiting.update(state=MessageState.GIVEN_UP, next_try_at=None, error="The channel was removed.")


def _known(kinds: Iterable[str]) -> list[str]:
    chosen = set(kinds)
    for kind in chosen - set(NoticeKind.values):
        remedy = f"Choose one of {', '.join(NoticeKind.values)}."
        raise Refusal(field="kinds", value=kind, message="There is no such kind of notice.", remedy=remedy)
    return [kind for kind in NoticeKind.values if kind in chosen]


def _require_mail(user: User) -> None:
    if not mailing.is_set_up():
        raise _conflict("mail", "This site sends no mail.", "Choose another type of channel.")
    if mailing.address_of(user) is None:
        raise _conflict(
            "mail", "Your account has no confirmed mail address.", "Add one on the account page and confirm it."
        )


def _conflict(value: str, message: str, remedy: str) -> Refusal:
    return Refusal(field="channel", value=value, message=message, remedy=remedy, status=409)
