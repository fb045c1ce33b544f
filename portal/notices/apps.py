"""Registers the app with Django."""

from django.apps import AppConfig


class NoticesConfig(AppConfig):
    """The label is the app's name in migrations and permissions."""

    name = "portal.notices"
    label = "notices"

    def ready(self) -> None:
        """Receive events of verdicts, of places and records, and of runs."""
        from portal.notices import noticing  # noqa: PLC0415 - models are there only when Django is ready
        from portal.ranking.hooks import standing_raised  # noqa: PLC0415 - as above
        from portal.runs.hooks import events_written  # noqa: PLC0415 - as above
        from portal.submissions.hooks import evaluation_ended  # noqa: PLC0415 - as above

        evaluation_ended.connect(noticing.take_verdict, uid="notices.take_verdict")
        standing_raised.connect(noticing.take_raised, uid="notices.take_raised")
        events_written.connect(noticing.take_run_events, uid="notices.take_run_events")
