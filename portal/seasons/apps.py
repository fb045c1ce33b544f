"""Registers the app with Django."""

from typing import Any

from django.apps import AppConfig


class SeasonsConfig(AppConfig):
    """The label is the app's name in migrations and permissions."""

    name = "portal.seasons"
    label = "seasons"

    def ready(self) -> None:
        """Receive queued evaluations: some of them are entries of a season."""
        from portal.submissions.hooks import evaluation_queued  # noqa: PLC0415 - models are there only when Django is ready

        evaluation_queued.connect(_evaluation_queued, uid="seasons.evaluation_queued")


def _evaluation_queued(queued: Any) -> None:
    from portal.seasons.entering import note_entry  # noqa: PLC0415 - as above

    note_entry(queued.evaluation)
