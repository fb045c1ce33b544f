"""Registers the app with Django."""

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import post_save


class RankingConfig(AppConfig):
    """The label is the app's name in migrations and permissions."""

    name = "portal.ranking"
    label = "ranking"

    def ready(self) -> None:
        """Receive evaluations that end, and accounts that are closed or opened: their entries count or do not."""
        from portal.submissions.hooks import (  # noqa: PLC0415 - models are there only when Django is ready
            evaluation_ended,
            quarantine_changed,
        )

        post_save.connect(_account_saved, sender=settings.AUTH_USER_MODEL, dispatch_uid="ranking.account_saved")
        evaluation_ended.connect(_evaluation_ended, uid="ranking.evaluation_ended")
        quarantine_changed.connect(_quarantine_changed, uid="ranking.quarantine_changed")


def _account_saved(instance: Any, *, created: bool, update_fields: Any, **_others: Any) -> None:
    from portal.ranking.actions import recount_boards  # noqa: PLC0415 - models are there only when Django is ready

    # Signing in saves `last_login` alone.
    if not created and (update_fields is None or "is_active" in update_fields):
        recount_boards(instance)


def _quarantine_changed(changed: Any) -> None:
    from portal.ranking.actions import take_quarantine  # noqa: PLC0415 - as above

    take_quarantine(changed)


def _evaluation_ended(ended: Any) -> None:
    from portal.ranking.actions import take_end  # noqa: PLC0415 - as above

    take_end(ended)
