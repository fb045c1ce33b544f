"""Counts evaluations as they end: by a report, by their author, or by a lost node."""

from portal.core import metrics
from portal.submissions.hooks import EvaluationEnded, evaluation_ended


@evaluation_ended.receiver
def on_evaluation_ended(ended: EvaluationEnded) -> None:
    metrics.count_end(ended.evaluation)
