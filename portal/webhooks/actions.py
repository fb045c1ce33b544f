"""Webhooks of an organisation: adding, trying and removing them, and sending again what failed.

`delivering` sends the events.
"""

import secrets
from collections.abc import Iterable
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from portal.accounts.models import Organisation, User
from portal.accounts.organisations import require_owner
from portal.refusals import Refusal
from portal.runs.models import EventKind
from portal.webhooks.models import BY_HAND, DeliveryState, Webhook, WebhookDelivery
from portal.webhooks.posting import address_of

MAX_WEBHOOKS = 10
SENT_BY_HAND_PER_HOUR = 60
"""Tests and repetitions of one organisation: each is a request to an address that may belong to a third party."""


def add_webhook(organisation: Organisation, *, url: str, events: Iterable[str], by: User) -> Webhook:
    """Add an address that receives events; the caller shows its `secret` once.

    Raises:
        Refusal: `by` is no owner (403), the address or an event is none, or there are too many (409).
    """
    require_owner(by, organisation)
    chosen = sorted(set(events))
    for event in chosen:
        if event not in EventKind.values:
            known = ", ".join(EventKind.values)
            raise Refusal(
                field="events", value=event, message="There is no such event.", remedy=f"Choose one of {known}."
            )
    if not chosen:
        raise Refusal(field="events", value="", message="No event was chosen.", remedy="Choose at least one event.")
    address_of(url)
    with transaction.atomic():
        Organisation.objects.select_for_update().get(pk=organisation.pk)
        if organisation.webhooks.filter(removed_at=None).count() >= MAX_WEBHOOKS:
            raise Refusal(
                field="url",
                value=url,
                message=f"The organisation has {MAX_WEBHOOKS} webhooks, which is the limit.",
                remedy="Remove a webhook first.",
                status=409,
            )
        return Webhook.objects.create(
            organisation=organisation, url=url, events=chosen, secret=f"whsec_{secrets.token_urlsafe(32)}"
        )


def try_webhook(webhook: Webhook, *, by: User) -> WebhookDelivery:
    """Queue a test: a delivery without an event, sent once and at once, however often the webhook has failed.

    Raises:
        Refusal: `by` is no owner (403), the webhook was removed or another test is on its way (409), or the
            organisation has had enough of them (429).
    """
    require_owner(by, webhook.organisation)
    with transaction.atomic():
        row = Webhook.objects.select_for_update().get(pk=webhook.pk)
        if row.removed_at is not None:
            raise _conflict(row, "The webhook was removed.", "Add it again.")
        if row.deliveries.filter(event=None, state=DeliveryState.WAITING).exists():
            raise _conflict(row, "A test is being sent already.", "Its result will appear in the log.")
        _check_sent_by_hand(row)
        return WebhookDelivery.objects.create(webhook=row)


def send_again(delivery: WebhookDelivery, *, by: User) -> WebhookDelivery:
    """Queue once more what was given up: a new line of the log, sent once and at once like a test.

    Raises:
        Refusal: `by` is no owner (403). The webhook was removed. The delivery is a test, was not given up, or was sent
            again already (409). The organisation has had enough sent by hand (429).
    """
    require_owner(by, delivery.webhook.organisation)
    with transaction.atomic():
        row = Webhook.objects.select_for_update().get(pk=delivery.webhook_id)
        if row.removed_at is not None:
            raise _conflict(row, "The webhook was removed.", "Add it again.")
        current = row.deliveries.select_related("sent_again").get(pk=delivery.pk)
        if not current.may_be_sent_again:
            raise _not_again(current)
        _check_sent_by_hand(row)
        return WebhookDelivery.objects.create(webhook=row, event_id=current.event_id, again_of=current)


def remove_webhook(webhook: Webhook, *, by: User) -> None:
    """Stop sending events to an address; its log stays. Raises Refusal (403)."""
    require_owner(by, webhook.organisation)
    now = timezone.now()
    Webhook.objects.filter(pk=webhook.pk, removed_at=None).update(removed_at=now)
    waiting = webhook.deliveries.filter(state=DeliveryState.WAITING)
    waiting.update(state=DeliveryState.GIVEN_UP, next_try_at=None, error="The webhook was removed.")


def _not_again(delivery: WebhookDelivery) -> Refusal:
    if delivery.event_id is None:
        message, remedy = "A test is not sent again.", "Send another test."
    elif delivery.state == DeliveryState.WAITING:
        message, remedy = "The delivery is still being tried.", "Wait for the next try. The log shows its time."
    elif delivery.state == DeliveryState.DELIVERED:
        message, remedy = "The delivery was accepted already.", "Look at the log of the receiver."
    else:
        message = f"The delivery was sent again already, as {delivery.sent_again.pk}."
        remedy = "Look at its result. If it failed too, send that one again."
    return Refusal(field="delivery", value=str(delivery.pk), message=message, remedy=remedy, status=409)


def _check_sent_by_hand(webhook: Webhook) -> None:
    lately = timezone.now() - timedelta(hours=1)
    sent = WebhookDelivery.objects.filter(BY_HAND, created_at__gt=lately)
    if sent.filter(webhook__organisation=webhook.organisation_id).count() >= SENT_BY_HAND_PER_HOUR:
        raise Refusal(
            field="webhook",
            value=webhook.url,
            message=f"The organisation has had {SENT_BY_HAND_PER_HOUR} deliveries sent by hand within an hour, tests "
            "among them, which is the limit.",
            remedy="Wait a while. Events are sent all the same.",
            status=429,
            retry_after_s=600,
        )


def _conflict(webhook: Webhook, message: str, remedy: str) -> Refusal:
    return Refusal(field="webhook", value=webhook.url, message=message, remedy=remedy, status=409)
