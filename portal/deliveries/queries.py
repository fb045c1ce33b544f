"""Shared reads of endpoints and their logs."""

from django.db.models import Count, QuerySet

from portal.accounts.models import Organisation, User
from portal.core.errors import by_id
from portal.deliveries.models import Delivery, Endpoint

LOG_SHOWN = 20


def get_webhook(organisation: Organisation, webhook_id: int) -> Endpoint:
    """One webhook of an organisation, removed ones among them; raises Refusal (404)."""
    webhooks = organisation.webhooks.select_related("organisation")
    message, remedy = "The organisation has no such webhook.", "Take an id from the list of its webhooks."
    return by_id(webhooks, "webhook", webhook_id, message, remedy)


def channels_of(user: User) -> QuerySet[Endpoint]:
    return user.channels.filter(removed_at=None)


def get_channel(user: User, channel_id: int) -> Endpoint:
    """One channel of a person; raises Refusal (404)."""
    message, remedy = "You have no such channel.", "Choose one from your notices page."
    return by_id(channels_of(user), "channel", channel_id, message, remedy)


def log_of(user: User) -> list[Delivery]:
    """The last deliveries to a person's channels, each with `notice_count`."""
    sent = Delivery.objects.filter(endpoint__account=user).select_related("endpoint")
    return list(sent.annotate(notice_count=Count("notices")).order_by("-created_at")[:LOG_SHOWN])
