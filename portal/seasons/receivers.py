"""Some queued evaluations are entries of a season."""

from portal.seasons.entering import note_entry
from portal.submissions.hooks import EvaluationQueued, evaluation_queued


@evaluation_queued.receiver
def on_evaluation_queued(queued: EvaluationQueued) -> None:
    note_entry(queued.evaluation)
