"""Invariants of the database that must hold after any failure or forged message; operators can check them any time.

Each is a function whose docstring is the sentence that must be true. It names the rows that break it at a moment, each
by what an operator can look up.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import CharField, Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from evaluator.contract import Mode, Verdict
from evaluator.judging.verdicts import FACTS
from portal.ranking.models import Board, PersonStanding, Standing
from portal.runs.models import Attempt, AttemptState, EventKind, Run, RunEvent
from portal.submissions import queries, queue, quotas
from portal.submissions.models import Evaluation, GpuUse, Report, State, Submission

Finder = Callable[[datetime], Iterable[str]]
INVARIANTS: dict[str, Finder] = {}
"""By the name that operators see."""

NOTE = "demo data, not judged"
"""The note of submissions that are invented for load tests (`tools.bench.demo_data`)."""
STUCK_AFTER = timedelta(minutes=5)
"""How long after its end a lease may stay in the database: site, broker and nodes may all have been down."""
_RETRIED = [verdict.value for verdict, facts in FACTS.items() if facts.is_retried]
# What a report's JSON says, as text: a lookup on the key itself would compare JSON with JSON.
_REPORTED = Cast(KT("content__verdict"), CharField())
_PLACE = ("problem", "problem_revision", "profile", "score_rule")


def _invariant(find: Finder) -> Finder:
    INVARIANTS[find.__name__.replace("_", "-")] = find
    return find


def audit(now: datetime) -> dict[str, tuple[str, ...]]:
    """The rows that break each invariant, by its name, in one snapshot of the database; writes nothing.

    Runs while the site works: on PostgreSQL all queries see one snapshot, on SQLite writers wait. Inside another
    transaction they see what that one sees.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if connection.vendor == "postgresql" and is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return {name: tuple(find(now)) for name, find in INVARIANTS.items()}


# ---- every accepted submission has exactly one outcome: none is lost, none counts twice ------------------------------


def _ids(rows: QuerySet[Evaluation] | QuerySet[Submission]) -> Iterator[str]:
    return (str(pk) for pk in rows.order_by().values_list("pk", flat=True))


def _judged() -> QuerySet[Evaluation]:
    """The evaluations that were really judged: invented ones have an outcome and no report."""
    return Evaluation.objects.exclude(submission__note=NOTE)


@_invariant
def accepted_is_queued(_now: datetime) -> Iterator[str]:
    """Every submission that was accepted has an evaluation."""
    return _ids(Submission.objects.exclude(Exists(Evaluation.objects.filter(submission=OuterRef("pk")))))


@_invariant
def ended_has_outcome(_now: datetime) -> Iterator[str]:
    """An evaluation that has ended has an end time and no lease. One that has finished has a verdict."""
    no_verdict = Q(state=State.FINISHED, verdict="")
    return _ids(
        Evaluation.objects.filter(state__in=State.ended()).filter(
            no_verdict | Q(finished_at=None) | ~Q(lease=None) | ~Q(lease_expires_at=None)
        )
    )


@_invariant
def unfinished_has_none(_now: datetime) -> Iterator[str]:
    """An evaluation that has not ended has neither verdict nor score."""
    unfinished = Evaluation.objects.filter(state__in=State.unfinished())
    return _ids(unfinished.filter(~Q(verdict="") | ~Q(finished_at=None) | ~Q(score=None)))


@_invariant
def waiting_is_free(_now: datetime) -> Iterator[str]:
    """An evaluation that waits has no lease."""
    # What is compiled meanwhile has one.
    return _ids(Evaluation.objects.filter(state__in=State.without_a_node()).exclude(lease=None, lease_expires_at=None))


@_invariant
def held_is_leased(_now: datetime) -> Iterator[str]:
    """An evaluation on a node has a lease with an end and a deadline, and a slot."""
    leased = Evaluation.objects.filter(state__in=State.under_lease())
    return _ids(leased.filter(Q(lease=None) | Q(lease_expires_at=None) | Q(deadline_at=None) | Q(slot_index=None)))


@_invariant
def nothing_is_stuck(now: datetime) -> Iterator[str]:
    """No lease and no deadline ended more than five minutes ago."""
    since = now - STUCK_AFTER
    leased = Evaluation.objects.filter(state__in=State.under_lease())
    return _ids(leased.filter(Q(lease_expires_at__lt=since) | Q(deadline_at__lt=since)))


@_invariant
def tries_are_counted(_now: datetime) -> Iterator[str]:
    """No evaluation was tried more than three times, and no report is of a later try."""
    later = Report.objects.filter(evaluation=OuterRef("pk"), attempt__gt=OuterRef("attempt"))
    return _ids(Evaluation.objects.filter(Q(attempt__lt=1) | Q(attempt__gt=settings.MAX_TRIES) | Exists(later)))


def _last_report() -> QuerySet[Report]:
    return Report.objects.filter(evaluation=OuterRef("pk"), attempt=OuterRef("attempt"))


@_invariant
def verdict_is_reported(_now: datetime) -> Iterator[str]:
    """A verdict is that of the report on the last try. Without a report, three nodes were lost."""
    reported = Subquery(_last_report().annotate(reported=_REPORTED).values("reported")[:1])
    finished = _judged().filter(state=State.FINISHED).annotate(reported=reported)
    lost = Q(reported=None, verdict=Verdict.JUDGE_FAILURE.value, attempt=settings.MAX_TRIES)
    return _ids(finished.filter(Q(reported=None) & ~lost | Q(reported__isnull=False) & ~Q(reported=F("verdict"))))


@_invariant
def report_is_heeded(_now: datetime) -> Iterator[str]:
    """An unfinished evaluation has no report on its current try."""
    return _ids(_judged().exclude(state=State.FINISHED).filter(Exists(_last_report())))


@_invariant
def one_outcome(_now: datetime) -> Iterator[str]:
    """Every try before the last ended with a failure of ours: nothing was decided twice."""
    earlier = Report.objects.filter(attempt__lt=F("evaluation__attempt")).annotate(reported=_REPORTED)
    decided = earlier.exclude(reported__in=_RETRIED).order_by().values_list("evaluation_id", flat=True)
    return (str(pk) for pk in decided)


# ---- boards show what was judged, all of it and once -----------------------------------------------------------------


@_invariant
def standings_were_judged(_now: datetime) -> Iterator[str]:
    """Every standing has an accepted evaluation of its author with the same score."""
    carried = Q(
        evaluation__state=State.FINISHED,
        evaluation__verdict=Verdict.PASSED.value,
        evaluation__mode=Mode.RANKED.value,
        evaluation__submission__is_attempt=False,
        evaluation__submission__author=F("author"),
        evaluation__submission__problem=F("problem"),
        evaluation__submission__backend=F("backend"),
        evaluation__problem_revision=F("problem_revision"),
        evaluation__profile=F("profile"),
        evaluation__score_rule=F("score_rule"),
        evaluation__score_low=F("score_low"),
    )
    return (f"standing {pk}" for pk in Standing.objects.exclude(carried).order_by().values_list("pk", flat=True))


@_invariant
def accepted_stands(_now: datetime) -> Iterator[str]:
    """For every accepted ranked evaluation its board has a standing of the same author that is at least as good."""
    as_good = Standing.objects.filter(
        author=OuterRef("submission__author"),
        problem=OuterRef("submission__problem"),
        backend=OuterRef("submission__backend"),
        problem_revision=OuterRef("problem_revision"),
        profile=OuterRef("profile"),
        score_rule=OuterRef("score_rule"),
        score_low__gte=OuterRef("score_low"),
    )
    accepted = Evaluation.objects.filter(
        state=State.FINISHED,
        verdict=Verdict.PASSED.value,
        mode=Mode.RANKED.value,
        submission__is_attempt=False,
        score_low__isnull=False,
        score_rule__isnull=False,
    )
    # Operators have taken these off every board.
    shown = accepted.exclude(submission__in=queries.quarantined().values("submission"))
    return (str(pk) for pk in shown.exclude(Exists(as_good)).order_by().values_list("pk", flat=True))


@_invariant
def boards_are_counted(_now: datetime) -> Iterator[str]:
    """Every board's count is the number of its entries of open accounts."""
    rows = Standing.objects.filter(author__is_active=True).order_by().values_list(*_PLACE).annotate(Count("pk"))
    standing = {tuple(place): count for *place, count in rows}
    stored = {tuple(place): count for *place, count in Board.objects.values_list(*_PLACE, "entries")}
    for place in standing.keys() | stored.keys():
        if standing.get(place, 0) != stored.get(place, 0):
            yield f"{place[0]} on {place[2]}: {stored.get(place, 0)} counted, {standing.get(place, 0)} there"


@_invariant
def people_stand(_now: datetime) -> Iterator[str]:
    """Everybody listed on a profile has an entry there."""
    entries = Standing.objects.filter(author=OuterRef("author"), profile=OuterRef("profile"))
    return (f"person {pk}" for pk in PersonStanding.objects.exclude(Exists(entries)).values_list("pk", flat=True))


# ---- runs of models: every attempt has its result, and one event for it ----------------------------------------------


@_invariant
def attempts_are_judged(_now: datetime) -> Iterator[str]:
    """Every attempt of a run shows its evaluation's result, and is pending exactly as long as the evaluation."""
    judged = Attempt.objects.exclude(evaluation=None)
    has_ended = Q(evaluation__state__in=State.ended())
    same = Q(verdict=F("evaluation__verdict")) & (
        Q(score=F("evaluation__score")) | Q(score=None, evaluation__score=None)
    )
    agrees = Q(state=AttemptState.PENDING) & ~has_ended | Q(state=AttemptState.ENDED) & has_ended & same
    return (f"attempt {pk}" for pk in judged.exclude(agrees).order_by().values_list("pk", flat=True))


@_invariant
def attempts_are_recorded(_now: datetime) -> Iterator[str]:
    """Exactly one event was recorded for the end of each evaluation of every attempt judged here."""
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


@_invariant
def runs_are_completed(_now: datetime) -> Iterator[str]:
    """Every run without pending attempts has recorded that it is complete."""
    pending = Attempt.objects.filter(run=OuterRef("pk"), state=AttemptState.PENDING)
    last = RunEvent.objects.filter(run=OuterRef("pk"), kind=EventKind.ATTEMPT_ENDED)
    for run in Run.objects.filter(Exists(last)).exclude(Exists(pending)).values_list("pk", flat=True):
        events = RunEvent.objects.filter(run=run).exclude(kind=EventKind.RUN_PUBLISHED).order_by("-pk")
        if events.values_list("kind", flat=True)[0] != EventKind.RUN_COMPLETED:
            yield f"run {run}"


# ---- GPU time is charged to the second: reserved while an evaluation waits, charged once when it ends ----------------


@_invariant
def gpu_time_is_charged(_now: datetime) -> Iterator[str]:
    """All work on this site's GPUs counts against an allowance, except what an operator has judged again."""
    # All that waits has a payer, and every attempt's first.
    first = ~Exists(Evaluation.objects.filter(submission=OuterRef("submission"), queued_at__lt=OuterRef("queued_at")))
    chargeable = Q(state__in=State.unfinished()) | Q(submission__is_attempt=True) & first
    here = Evaluation.objects.filter(recorded_on=None, node_owner=None).exclude(priority=queue.REJUDGE_PRIORITY)
    chosen = here.filter(chargeable, gpu_use=None).order_by().values_list("pk", "profile")
    return (str(pk) for pk, profile in chosen if quotas.reservation_gpu_s(profile))


@_invariant
def quotas_are_exact(_now: datetime) -> Iterator[str]:
    """What waits is reserved. What has ended is charged by the time that it took."""
    for use in GpuUse.objects.select_related("evaluation").iterator():
        if not use.evaluation.has_ended:
            if use.used_gpu_s is not None:
                yield f"GPU use {use.pk}: charged before its end"
        elif use.used_gpu_s is None:
            yield f"GPU use {use.pk}: still reserved"
        elif use.used_gpu_s and not math.isclose(use.used_gpu_s, quotas.charge(use.evaluation), abs_tol=1e-6):
            yield f"GPU use {use.pk}: {use.used_gpu_s} instead of {quotas.charge(use.evaluation)}"
