"""What an operator sees of people's channels: neither addresses nor secrets, which are as good as passwords."""

from django.contrib import admin

from portal.notices.models import Channel, Message
from portal.submissions.admin import ReadOnly


@admin.register(Channel)
class ChannelAdmin(ReadOnly):
    """Channels."""

    list_display = ("id", "user", "form", "kinds", "failures", "created_at", "removed_at")
    list_filter = ("form",)
    list_select_related = ("user",)
    exclude = ("url", "secret")


@admin.register(Message)
class MessageAdmin(ReadOnly):
    """The log of what was sent."""

    list_display = ("created_at", "channel", "is_test", "state", "tries", "answer_status", "error", "next_try_at")
    list_filter = ("state", "is_test")
    list_select_related = ("channel__user",)
    show_full_result_count = False
