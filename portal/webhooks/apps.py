"""Registers the app with Django."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    """The label is the app's name in migrations and permissions."""

    name = "portal.webhooks"
    label = "webhooks"

    def ready(self) -> None:
        """Receive events of runs: each is queued for the webhooks that subscribe to its kind."""
        from portal.runs.hooks import events_written  # noqa: PLC0415 - models are there only when Django is ready
        from portal.webhooks.delivering import queue_deliveries  # noqa: PLC0415 - as above

        events_written.connect(queue_deliveries, uid="webhooks.queue_deliveries")
