"""Some queued evaluations are entries of a season."""

from portal.seasons.entering import note_entry
from portal.submissions.hooks import evaluation_queued
from portal.submissions.models import Evaluation


@evaluation_queued.receiver
def on_evaluation_queued(evaluation: Evaluation) -> None:
    note_entry(evaluation)
