"""Webhooks of an organisation: adding, trying and removing them. `telling` sends what they are to hear."""

import secrets
from collections.abc import Iterable
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from portal.accounts.models import Organisation, User
from portal.accounts.organisations import require_owner
from portal.refusals import Refusal
from portal.runs.models import DeliveryState, EventKind, Webhook, WebhookDelivery
from portal.runs.posting import address_of

MAX_WEBHOOKS = 10
TESTS_PER_HOUR = 60
"""Tests of one organisation: each is a request to an address that may be somebody else's."""


def add_webhook(organisation: Organisation, *, url: str, events: Iterable[str], by: User) -> Webhook:
    """Add an address that is told of events; its `secret` is shown once by the caller.

    Raises:
        Refusal: `by` is no owner (403), the address or an event is none, or there are too many (409).
    """
    require_owner(by, organisation)
    chosen = sorted(set(events))
    for event in chosen:
        if event not in EventKind.values:
            known = ", ".join(EventKind.values)
            raise Refusal(field="events", value=event, message="There is no such event.", remedy=f"Known are {known}.")
    if not chosen:
        raise Refusal(field="events", value="", message="The webhook hears of nothing.", remedy="Choose an event.")
    address_of(url)
    with transaction.atomic():
        Organisation.objects.select_for_update().get(pk=organisation.pk)
        if organisation.webhooks.filter(removed_at=None).count() >= MAX_WEBHOOKS:
            raise Refusal(
                field="url",
                value=url,
                message=f"The organisation has {MAX_WEBHOOKS} webhooks, which is the most there can be.",
                remedy="Remove one.",
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
            raise _conflict(row, "A test is on its way already.", "Look into the log in a moment.")
        _check_tests(row)
        return WebhookDelivery.objects.create(webhook=row)


def remove_webhook(webhook: Webhook, *, by: User) -> None:
    """Tell an address nothing any more; its log stays. Raises Refusal (403)."""
    require_owner(by, webhook.organisation)
    now = timezone.now()
    Webhook.objects.filter(pk=webhook.pk, removed_at=None).update(removed_at=now)
    waiting = webhook.deliveries.filter(state=DeliveryState.WAITING)
    waiting.update(state=DeliveryState.GIVEN_UP, next_try_at=None, error="The webhook was removed.")


def _check_tests(webhook: Webhook) -> None:
    lately = timezone.now() - timedelta(hours=1)
    tests = WebhookDelivery.objects.filter(event=None, created_at__gt=lately)
    if tests.filter(webhook__organisation=webhook.organisation_id).count() >= TESTS_PER_HOUR:
        raise Refusal(
            field="webhook",
            value=webhook.url,
            message=f"The organisation has had {TESTS_PER_HOUR} tests sent within an hour, the most there can be.",
            remedy="Wait a while; events are told all the same.",
            status=429,
            retry_after_s=600,
        )


def _conflict(webhook: Webhook, message: str, remedy: str) -> Refusal:
    return Refusal(field="webhook", value=webhook.url, message=message, remedy=remedy, status=409)
