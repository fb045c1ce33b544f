"""Counts evaluations as they end: by a report, by their author, or by a lost node."""

from portal.core import metrics
from portal.submissions.hooks import evaluation_ended
from portal.submissions.models import Evaluation


@evaluation_ended.receiver
def on_evaluation_ended(evaluation: Evaluation) -> None:
    metrics.count_end(evaluation)
