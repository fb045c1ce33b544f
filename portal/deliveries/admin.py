"""What an operator sees of endpoints: no secrets, and no addresses of people's channels, which are as good as these."""

from django.contrib import admin

from portal.core.admin import ReadOnly
from portal.deliveries.models import Delivery, Endpoint


@admin.register(Endpoint)
class EndpointAdmin(ReadOnly):
    list_display = ("__str__", "organisation", "form", "kinds", "failures", "created_at", "removed_at")
    list_filter = ("form", ("organisation", admin.EmptyFieldListFilter))
    list_select_related = ("organisation", "account")
    exclude = ("url", "secret")


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly):
    list_display = (
        "created_at", "endpoint", "event", "is_test", "state", "tries", "answer_status", "error", "next_try_at",
    )  # fmt: skip
    list_filter = ("state", "is_test")
    list_select_related = ("endpoint__account", "event")
    show_full_result_count = False
