"""Events of runs: an evaluation of an attempt ends. They are stored for the feeds and sent by `events_written`.

Every event is written under the lock of its run's row. So the numbers of a run's events grow in the order in which they
become visible, and a feed's cursor passes none by.
"""

from collections.abc import Sequence

from django.db import transaction

from portal.runs.hooks import EventsWritten, events_written
from portal.runs.models import (
    Attempt,
    AttemptState,
    EventKind,
    Run,
    RunEvent,
)
from portal.submissions.hooks import EvaluationEnded
from portal.submissions.models import Evaluation, State


def take_end(ended: EvaluationEnded) -> None:
    """Record the end of an attempt's evaluation: update the attempt's result and store an event.

    Runs inside the transaction that ends the evaluation. Evaluations of people's submissions change nothing here, nor
    do those of an attempt on another profile, in another mode, or older than the one it shows.
    """
    evaluation = ended.evaluation
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


def record(run: Run, events: Sequence[RunEvent]) -> None:
    """Store events of a run whose row the caller has locked, and send `events_written`.

    Adds `run.completed` if no attempt is pending any more.
    """
    written = list(RunEvent.objects.bulk_create(events))
    has_ended = any(event.kind == EventKind.ATTEMPT_ENDED for event in events)
    if has_ended and not run.attempts.filter(state=AttemptState.PENDING).exists():
        written.append(RunEvent.objects.create(run=run, kind=EventKind.RUN_COMPLETED))
    events_written.send(EventsWritten(run=run, events=tuple(written)))


def _counts(evaluation: Evaluation, attempt: Attempt) -> bool:
    if evaluation.profile != attempt.run.profile or evaluation.mode != attempt.mode:
        return False
    shown = attempt.evaluation
    if attempt.state == AttemptState.PENDING or shown is None or shown.pk == evaluation.pk:
        return True
    return evaluation.state == State.FINISHED and evaluation.queued_at >= shown.queued_at
