"""Registers the app with Django."""

from django.apps import AppConfig


class SubmissionsConfig(AppConfig):
    """The label is the app's name in migrations and permissions."""

    name = "portal.submissions"
    label = "submissions"

    def ready(self) -> None:
        """Receive evaluations that end: their GPU time is charged, and refunded when an operator decides so."""
        from portal.submissions.hooks import evaluation_ended, evaluation_refunded  # noqa: PLC0415 - models are there once Django is ready
        from portal.submissions.quotas import charge_ended, refund  # noqa: PLC0415 - as above

        evaluation_ended.connect(charge_ended, uid="submissions.charge_ended")
        evaluation_refunded.connect(refund, uid="submissions.refund")
