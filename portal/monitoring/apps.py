"""Registers the app with Django, and counts evaluations as they end."""

from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    """It has no tables."""

    name = "portal.monitoring"
    label = "monitoring"

    def ready(self) -> None:
        """Receive every end of an evaluation: by a report, by its author, or by a lost node."""
        from portal import metrics  # noqa: PLC0415 - models are there from here on
        from portal.submissions.hooks import evaluation_ended  # noqa: PLC0415

        evaluation_ended.connect(lambda end: metrics.count_end(end.evaluation), uid="monitoring.count_end")
