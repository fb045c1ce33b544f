"""Counts evaluations as they end: by a report, by their author, or by a lost node."""

from django.db import transaction

from evaluator.hardware import profiles
from portal.core import metrics
from portal.submissions.hooks import evaluation_ended
from portal.submissions.models import Evaluation


@evaluation_ended.receiver
def on_evaluation_ended(evaluation: Evaluation) -> None:
    transaction.on_commit(lambda: _count(evaluation))


def _count(evaluation: Evaluation) -> None:
    profile = evaluation.profile
    metrics.ended.labels(profile, evaluation.verdict or "CANCELLED").inc()
    if evaluation.started_at is None or evaluation.finished_at is None:
        return
    judged_s = max(0.0, (evaluation.finished_at - evaluation.started_at).total_seconds())
    wait_s = max(0.0, (evaluation.started_at - evaluation.queued_at).total_seconds())
    metrics.wait_seconds.labels(profile).observe(wait_s)
    metrics.judging_seconds.labels(profile).observe(judged_s)
    metrics.rank_seconds.labels(profile).inc(judged_s * profiles.get(profile).world_size)
