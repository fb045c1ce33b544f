"""Boards follow evaluations that end, entries that are quarantined, and accounts that are closed or opened."""

from typing import Any

from django.db.models.signals import post_save
from django.dispatch import receiver

from portal.accounts.models import User
from portal.ranking.actions import change_quarantine, raise_standing, recount_boards
from portal.ranking.hooks import standing_raised
from portal.submissions.hooks import evaluation_ended, quarantine_changed
from portal.submissions.models import Evaluation, Quarantine, Submission


@evaluation_ended.receiver
def on_evaluation_ended(evaluation: Evaluation) -> None:
    """Let the evaluation become its author's standing, and send `standing_raised` if it did."""
    # An operator who puts the entry into quarantine locks the same row: of the two, the later sees what the other did.
    # A rebuild locks no submission: it locks standings, for which an evaluation that ends may wait.
    Submission.objects.select_for_update().only("pk").get(pk=evaluation.submission_id)
    raised = raise_standing(evaluation)
    if raised is not None:
        standing_raised.send(raised)


@quarantine_changed.receiver
def on_quarantine_changed(quarantine: Quarantine) -> None:
    change_quarantine(quarantine.submission, is_quarantined=quarantine.lifted_at is None)


@receiver(post_save, sender=User, dispatch_uid="ranking.account_saved")
def on_account_saved(instance: User, *, created: bool, update_fields: Any, **_others: Any) -> None:
    # Signing in saves `last_login` alone.
    if not created and (update_fields is None or "is_active" in update_fields):
        recount_boards(instance)
