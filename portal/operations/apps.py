"""Registers the app with Django, and counts evaluations as they end."""

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    """It has no tables."""

    name = "portal.operations"
    label = "operations"

    def ready(self) -> None:
        """Receive every end of an evaluation: by a report, by its author, or by a lost node."""
        from portal.core import metrics  # noqa: PLC0415 - models are there from here on
        from portal.submissions.hooks import evaluation_ended  # noqa: PLC0415

        evaluation_ended.connect(lambda end: metrics.count_end(end.evaluation), uid="operations.count_end")
