"""Keeping standings in step with the evaluations they are derived from."""

from django.db import transaction

from portal.ranking.models import Standing
from portal.ranking.order import is_better
from portal.submissions.models import Evaluation, State


def update_standing(evaluation: Evaluation) -> bool:
    """Let a finished evaluation become its author's standing if it is their best; returns whether it did.

    Runs inside the transaction that ends the evaluation. Only ranked evaluations that PASSED count.
    """
    if evaluation.state != State.FINISHED or evaluation.verdict != "PASSED" or evaluation.mode != "ranked":
        return False
    if evaluation.score is None or evaluation.score_low is None or evaluation.score_high is None:
        return False
    submission = evaluation.submission
    place = {
        "author_id": submission.author_id,
        "problem": submission.problem,
        "problem_revision": evaluation.problem_revision,
        "profile": evaluation.profile,
        "backend": submission.backend,
    }
    values = {
        "evaluation": evaluation,
        "score": evaluation.score,
        "score_low": evaluation.score_low,
        "score_high": evaluation.score_high,
        "submitted_at": submission.created_at,
    }
    with transaction.atomic():
        # get_or_create and the row lock decide between two evaluations of one author that end at the same moment.
        standing, is_new = Standing.objects.select_for_update().get_or_create(**place, defaults=values)
        if is_new:
            return True
        if not is_better(evaluation.score_low, submission.created_at, than=(standing.score_low, standing.submitted_at)):
            return False
        Standing.objects.filter(pk=standing.pk).update(**values)
    return True


def rebuild_standings() -> int:
    """Derive every standing anew from the evaluations; returns how many there are."""
    with transaction.atomic():
        Standing.objects.all().delete()
        passed = Evaluation.objects.filter(state=State.FINISHED, verdict="PASSED", mode="ranked")
        for evaluation in passed.select_related("submission").order_by("finished_at"):
            update_standing(evaluation)
        return Standing.objects.count()
