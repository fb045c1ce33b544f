"""What an operator sees of webhooks."""

from django.contrib import admin

from portal.submissions.admin import ReadOnly
from portal.webhooks.models import Webhook, WebhookDelivery


@admin.register(Webhook)
class WebhookAdmin(ReadOnly):
    """Webhooks, without their secrets."""

    list_display = ("url", "organisation", "events", "created_at", "removed_at")
    exclude = ("secret",)
    list_select_related = ("organisation",)


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnly):
    """The delivery log."""

    list_display = ("id", "webhook", "event", "state", "tries", "answer_status", "error", "next_try_at", "created_at")
    list_filter = ("state",)
    list_select_related = ("webhook", "event")
