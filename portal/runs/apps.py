"""Registers the app with Django."""

from django.apps import AppConfig


class RunsConfig(AppConfig):
    """The label is the app's name in migrations and permissions."""

    name = "portal.runs"
    label = "runs"

    def ready(self) -> None:
        """Receive evaluations that end: those of attempts make events."""
        from portal.runs.events import take_end  # noqa: PLC0415 - models are there only when Django is ready
        from portal.submissions.hooks import evaluation_ended  # noqa: PLC0415 - as above

        evaluation_ended.connect(take_end, uid="runs.take_end")
