"""An evaluation that ends becomes the result of its attempt, and an event."""

from django.db import transaction

from portal.runs.models import Attempt, AttemptState, EventKind, Run, RunEvent, record
from portal.submissions.hooks import evaluation_ended
from portal.submissions.models import Evaluation, State


@evaluation_ended.receiver
def on_evaluation_ended(evaluation: Evaluation) -> None:
    """Record the end of an attempt's evaluation: update the attempt's result and store an event.

    Runs inside the transaction that ends the evaluation. Evaluations of people's submissions change nothing here, nor
    do those of an attempt on another profile, in another mode, or older than the one it shows.
    """
    if not evaluation.submission.is_attempt:
        return
    with transaction.atomic():
        attempt = (
            Attempt.objects.select_related("evaluation", "run").filter(submission=evaluation.submission_id).first()
        )
        if attempt is None or not _counts(evaluation, attempt):
            return
        Run.objects.select_for_update().get(pk=attempt.run_id)
        result = Attempt.result_of(evaluation)
        Attempt.objects.filter(pk=attempt.pk).update(**result)
        event = RunEvent(
            run_id=attempt.run_id,
            kind=EventKind.ATTEMPT_ENDED,
            attempt=attempt,
            verdict=evaluation.verdict,
            message=result["message"],
            score=evaluation.score,
        )
        record(attempt.run, [event])


def _counts(evaluation: Evaluation, attempt: Attempt) -> bool:
    if evaluation.profile != attempt.run.profile or evaluation.mode != attempt.mode:
        return False
    shown = attempt.evaluation
    if attempt.state == AttemptState.PENDING or shown is None or shown.pk == evaluation.pk:
        return True
    return evaluation.state == State.FINISHED and evaluation.queued_at >= shown.queued_at
