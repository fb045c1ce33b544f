"""Registers the app with Django."""

from django.apps import AppConfig


class DeliveriesConfig(AppConfig):
    """The label is the app's name in migrations and permissions."""

    name = "portal.deliveries"
    label = "deliveries"

    def ready(self) -> None:
        """Receive events of verdicts, of places and records, and of runs."""
        from portal.deliveries import receivers  # noqa: PLC0415 - models are there only when Django is ready
        from portal.ranking.hooks import standing_raised  # noqa: PLC0415 - as above
        from portal.runs.hooks import events_written  # noqa: PLC0415 - as above
        from portal.submissions.hooks import evaluation_ended  # noqa: PLC0415 - as above

        evaluation_ended.connect(receivers.note_verdict, uid="deliveries.note_verdict")
        standing_raised.connect(receivers.note_raised, uid="deliveries.note_raised")
        events_written.connect(receivers.queue_events, uid="deliveries.queue_events")
        events_written.connect(receivers.note_run_done, uid="deliveries.note_run_done")
