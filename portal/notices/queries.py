"""Shared reads of channels and their logs."""

from django.db.models import Count, QuerySet

from portal.accounts.models import User
from portal.notices.models import Channel, Message
from portal.refusals import Refusal

LOG_SHOWN = 20


def channels_of(user: User) -> QuerySet[Channel]:
    """The channels of a person that were not removed."""
    return user.channels.filter(removed_at=None)


def get_channel(user: User, channel_id: int) -> Channel:
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


def log_of(user: User) -> list[Message]:
    """The last messages to a person's channels, each with `notice_count`."""
    sent = Message.objects.filter(channel__user=user).select_related("channel")
    return list(sent.annotate(notice_count=Count("notices")).order_by("-created_at")[:LOG_SHOWN])
