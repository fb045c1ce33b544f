"""Runs of models: every attempt has its result, and one event for it."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, Exists, F, OuterRef, Q

from portal.operations.audit.invariants import invariant
from portal.runs.models import Attempt, AttemptState, EventKind, Run, RunEvent
from portal.submissions.models import State


@invariant(
    "attempts-are-judged",
    "Every attempt of a run shows its evaluation's result, and is pending exactly as long as the evaluation.",
)
def _unlike_its_evaluation(_now: datetime) -> Iterator[str]:
    judged = Attempt.objects.exclude(evaluation=None)
    has_ended = Q(evaluation__state__in=State.ended())
    same = Q(verdict=F("evaluation__verdict")) & (
        Q(score=F("evaluation__score")) | Q(score=None, evaluation__score=None)
    )
    agrees = Q(state=AttemptState.PENDING) & ~has_ended | Q(state=AttemptState.ENDED) & has_ended & same
    return (f"attempt {pk}" for pk in judged.exclude(agrees).order_by().values_list("pk", flat=True))


@invariant(
    "attempts-are-recorded",
    "Exactly one event was recorded for the end of each evaluation of every attempt judged here.",
)
def _without_exactly_one_event(_now: datetime) -> Iterator[str]:
    event_count = Count("events", filter=Q(events__kind=EventKind.ATTEMPT_ENDED), distinct=True)
    judged = Count("submission__evaluations", filter=Q(submission__evaluations__state__in=State.ended()), distinct=True)
    rows = Attempt.objects.filter(run__recorded_on=None).annotate(event_count=event_count, judged=judged).order_by()
    pending, ended = Q(state=AttemptState.PENDING), Q(state=AttemptState.ENDED)
    by_text = Q(submission=None)
    wrong = (
        (pending & ~Q(event_count=0))
        | (ended & Q(event_count=0))
        | (by_text & Q(event_count__gt=1))
        | (~by_text & Q(event_count__gt=F("judged")))
    )
    return (f"attempt {pk}" for pk in rows.filter(wrong).values_list("pk", flat=True))


@invariant("runs-are-completed", "Every run without pending attempts has recorded that it is complete.")
def _not_completed(_now: datetime) -> Iterator[str]:
    pending = Attempt.objects.filter(run=OuterRef("pk"), state=AttemptState.PENDING)
    last = RunEvent.objects.filter(run=OuterRef("pk"), kind=EventKind.ATTEMPT_ENDED)
    done = Run.objects.filter(Exists(last)).exclude(Exists(pending)).values_list("pk", flat=True)
    for run in done:
        events = RunEvent.objects.filter(run=run).exclude(kind=EventKind.RUN_PUBLISHED).order_by("-pk")
        if events.values_list("kind", flat=True)[0] != EventKind.RUN_COMPLETED:
            yield f"run {run}"
