"""Webhooks of an organisation and channels of a person: adding, testing and removing them. `worker` sends."""

import secrets
from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone

from portal.accounts.actions import lock_account
from portal.accounts.models import Organisation, User
from portal.accounts.organisations import require_owner
from portal.core.errors import Conflict, Refusal, TooMany, check_choice
from portal.deliveries import mailing, outbound_http
from portal.deliveries.models import Delivery, DeliveryState, Endpoint, Form, NoticeKind
from portal.runs.models import EventKind

MAX_WEBHOOKS = 10
MAX_CHANNELS = 5
TESTS_PER_HOUR = 10
"""Of one organisation or person: each is a request to an address that may belong to a third party."""


def add_webhook(organisation: Organisation, *, url: str, events: Iterable[str], by: User) -> Endpoint:
    """Add an address that receives events; the caller shows its `secret` once.

    Raises:
        Refusal: `by` is no owner (403), the address or an event is none, or there are too many (409).
    """
    require_owner(by, organisation)
    chosen = sorted(_known("events", events, EventKind, "event"))
    if not chosen:
        raise Refusal("events", "", "No event was chosen.", "Choose at least one event.")
    outbound_http.address_of(url)
    with transaction.atomic():
        Organisation.objects.select_for_update().get(pk=organisation.pk)
        if organisation.webhooks.filter(removed_at=None).count() >= MAX_WEBHOOKS:
            message = f"The organisation has {MAX_WEBHOOKS} webhooks, which is the limit."
            raise Conflict("url", url, message, "Remove a webhook first.")
        return organisation.webhooks.create(url=url, kinds=chosen, secret=_new_secret())


def add_channel(user: User, *, form: str, url: str, kinds: Iterable[str]) -> Endpoint:
    """Add a channel; the `secret` that signs JSON is shown once by the caller.

    Raises:
        Refusal: form, address or a kind is none, mail cannot be sent to the account (409), or there are too many (409).
    """
    _known("form", [form], Form, "type of channel")
    chosen = _known("kinds", kinds, NoticeKind, "kind of notice")
    if form == Form.MAIL:
        url = ""
        if not settings.EMAIL_URL:
            raise Conflict("channel", "mail", "This site sends no mail.", "Choose another type of channel.")
        if mailing.address_of(user) is None:
            message = "Your account has no confirmed mail address."
            raise Conflict("channel", "mail", message, "Add one on the account page and confirm it.")
    else:
        outbound_http.address_of(url)
    with transaction.atomic():
        lock_account(user)  # two requests at once cannot both add the last channel
        channels = user.channels.filter(removed_at=None)
        if channels.filter(form=form, url=url).exists():
            raise Conflict(
                "channel", url or form, "You have this channel already.", "Choose the notices of that channel instead."
            )
        if channels.count() >= MAX_CHANNELS:
            raise Conflict(
                "channel", url, f"You have {MAX_CHANNELS} channels, which is the limit.", "Remove a channel first."
            )
        return user.channels.create(form=form, url=url, kinds=chosen, secret=_new_secret())


def set_kinds(channel: Endpoint, *, kinds: Iterable[str]) -> None:
    """Switch on exactly these kinds; pending notices of the others are not sent. Raises Refusal."""
    chosen = _known("kinds", kinds, NoticeKind, "kind of notice")
    with transaction.atomic():
        Endpoint.objects.filter(pk=channel.pk, removed_at=None).update(kinds=chosen)
        channel.notices.filter(delivery=None).exclude(kind__in=chosen).delete()


def send_test(endpoint: Endpoint, *, by: User) -> Delivery:
    """Queue a test: sent once and at once, however often the endpoint has failed.

    Raises:
        Refusal: `by` is no owner (403), the endpoint was removed or another test is on its way (409), or its owner has
            had enough of them (429).
    """
    with transaction.atomic():
        row = _locked(endpoint, by=by)
        if row.deliveries.filter(is_test=True, state=DeliveryState.WAITING).exists():
            raise Conflict(*_subject(row), "A test is being sent already.", "Its result will appear in the log.")
        lately = timezone.now() - timedelta(hours=1)
        same_owner = {"endpoint__organisation": row.organisation_id, "endpoint__account": row.account_id}
        if Delivery.objects.filter(is_test=True, created_at__gt=lately, **same_owner).count() >= TESTS_PER_HOUR:
            message = f"{TESTS_PER_HOUR} tests were sent within an hour, which is the limit."
            remedy = f"Wait a while. {'Events' if row.is_webhook else 'Notices'} are sent all the same."
            raise TooMany(*_subject(row), message, remedy, retry_after_s=600)
        return row.deliveries.create(is_test=True)


def remove_endpoint(endpoint: Endpoint, *, by: User) -> None:
    """Stop sending to an endpoint; its log stays. Raises Refusal: a webhook is removed by owners (403)."""
    if endpoint.organisation is not None:
        require_owner(by, endpoint.organisation)
    close(endpoint)


def close(endpoint: Endpoint) -> None:
    """Remove an endpoint, with what waits for it."""
    with transaction.atomic():
        Endpoint.objects.filter(pk=endpoint.pk, removed_at=None).update(removed_at=timezone.now())
        endpoint.notices.filter(delivery=None).delete()
        waiting = endpoint.deliveries.filter(state=DeliveryState.WAITING)
        waiting.update(state=DeliveryState.GIVEN_UP, next_try_at=None, error=f"The {endpoint.noun} was removed.")


def _locked(endpoint: Endpoint, *, by: User) -> Endpoint:
    """The row of an endpoint that was not removed, locked behind its owner's, whose tests are counted."""
    if endpoint.organisation is not None:
        require_owner(by, endpoint.organisation)
        Organisation.objects.select_for_update().get(pk=endpoint.organisation.pk)
    else:
        lock_account(by)
    row = Endpoint.objects.select_for_update().get(pk=endpoint.pk)
    if row.removed_at is not None:
        raise Conflict(*_subject(row), f"The {row.noun} was removed.", "Add it again.")
    return row


def _subject(row: Endpoint) -> tuple[str, str]:
    """The field and the value of a refusal about an endpoint. A channel's address is as good as a password."""
    return row.noun, row.url if row.is_webhook else str(row.pk)


def _known(field: str, values: Iterable[str], choices: type[models.TextChoices], noun: str) -> list[str]:
    """The chosen ones of `choices`, in their order; raises Refusal for any other value."""
    chosen = set(values)
    for value in sorted(chosen - set(choices.values)):
        check_choice(field, value, choices.values, noun=noun)
    return [value for value in choices.values if value in chosen]


def _new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(32)}"
