"""Shared reads of endpoints and their logs."""

import uuid

from django.db.models import Count, QuerySet

from portal.accounts.models import Organisation, User
from portal.core.errors import Refusal
from portal.deliveries.models import Delivery, Endpoint

LOG_SHOWN = 20


def get_webhook(organisation: Organisation, webhook_id: int) -> Endpoint:
    """One webhook of an organisation, removed ones among them; raises Refusal (404)."""
    found = organisation.webhooks.select_related("organisation").filter(pk=webhook_id).first()
    if found is None:
        raise Refusal(
            field="webhook",
            value=str(webhook_id),
            message="The organisation has no such webhook.",
            remedy="Take an id from the list of its webhooks.",
            status=404,
        )
    return found


def get_delivery(webhook: Endpoint, delivery_id: uuid.UUID) -> Delivery:
    """One line of a webhook's log; raises Refusal (404)."""
    found = webhook.deliveries.select_related("endpoint__organisation").filter(pk=delivery_id).first()
    if found is None:
        raise Refusal(
            field="delivery",
            value=str(delivery_id),
            message="The webhook has no such delivery.",
            remedy="Take an id from the log of the webhook.",
            status=404,
        )
    return found


def channels_of(user: User) -> QuerySet[Endpoint]:
    """The channels of a person that were not removed."""
    return user.channels.filter(removed_at=None)


def get_channel(user: User, channel_id: int) -> Endpoint:
    """One channel of a person; raises Refusal (404)."""
    found = channels_of(user).filter(pk=channel_id).first()
    if found is None:
        raise Refusal(
            field="channel",
            value=str(channel_id),
            message="You have no such channel.",
            remedy="Choose one from your notices page.",
            status=404,
        )
    return found


def log_of(user: User) -> list[Delivery]:
    """The last deliveries to a person's channels, each with `notice_count`."""
    sent = Delivery.objects.filter(endpoint__account=user).select_related("endpoint")
    return list(sent.annotate(notice_count=Count("notices")).order_by("-created_at")[:LOG_SHOWN])
