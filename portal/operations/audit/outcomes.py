"""Every accepted submission has exactly one outcome: none is lost, none counts twice."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from evaluator.contract import Verdict
from evaluator.judging.verdicts import FACTS
from portal.operations.audit.invariants import invariant
from portal.submissions.models import Evaluation, Report, State, Submission

NOTE = "demo data, not judged"
"""The note of submissions that are invented for load tests (`tools.bench.demo_data`)."""
_RETRIED = [verdict.value for verdict, facts in FACTS.items() if facts.is_retried]
# What a report's JSON says, as text: a lookup on the key itself would compare JSON with JSON.
_REPORTED = Cast(KT("content__verdict"), CharField())
STUCK_AFTER = timedelta(minutes=5)
"""How long after its end a lease may stay in the database: site, broker and nodes may all have been down."""


def _ids(rows: QuerySet[Evaluation] | QuerySet[Submission]) -> Iterator[str]:
    return (str(pk) for pk in rows.order_by().values_list("pk", flat=True))


def _judged() -> QuerySet[Evaluation]:
    """The evaluations that were really judged: invented ones have an outcome and no report."""
    return Evaluation.objects.exclude(submission__note=NOTE)


@invariant("accepted-is-queued", "Every submission that was accepted has an evaluation.")
def _without_evaluation(_now: datetime) -> Iterator[str]:
    return _ids(Submission.objects.exclude(Exists(Evaluation.objects.filter(submission=OuterRef("pk")))))


@invariant(
    "ended-has-outcome",
    "An evaluation that has ended has an end time and no lease. One that has finished has a verdict.",
)
def _ended_without_outcome(_now: datetime) -> Iterator[str]:
    no_verdict = Q(state=State.FINISHED, verdict="")
    return _ids(
        Evaluation.objects.filter(state__in=State.ended()).filter(
            no_verdict | Q(finished_at=None) | ~Q(lease=None) | ~Q(lease_expires_at=None)
        )
    )


@invariant("unfinished-has-none", "An evaluation that has not ended has neither verdict nor score.")
def _outcome_before_the_end(_now: datetime) -> Iterator[str]:
    unfinished = Evaluation.objects.filter(state__in=State.unfinished())
    return _ids(unfinished.filter(~Q(verdict="") | ~Q(finished_at=None) | ~Q(score=None)))


@invariant("waiting-is-free", "An evaluation that waits has no lease.")
def _waiting_under_a_lease(_now: datetime) -> Iterator[str]:
    """What waits has no lease, but for what is compiled meanwhile."""
    return _ids(Evaluation.objects.filter(state__in=State.without_a_node()).exclude(lease=None, lease_expires_at=None))


@invariant("held-is-leased", "An evaluation on a node has a lease with an end and a deadline, and a slot.")
def _on_a_node_without_a_lease(_now: datetime) -> Iterator[str]:
    leased = Evaluation.objects.filter(state__in=State.under_lease())
    return _ids(leased.filter(Q(lease=None) | Q(lease_expires_at=None) | Q(deadline_at=None) | Q(slot_index=None)))


@invariant(
    "nothing-is-stuck", f"No lease and no deadline ended more than {STUCK_AFTER.total_seconds() / 60:.0f} minutes ago."
)
def _stuck(now: datetime) -> Iterator[str]:
    since = now - STUCK_AFTER
    leased = Evaluation.objects.filter(state__in=State.under_lease())
    return _ids(leased.filter(Q(lease_expires_at__lt=since) | Q(deadline_at__lt=since)))


@invariant(
    "tries-are-counted",
    f"No evaluation was tried more than {settings.MAX_TRIES} times, and no report is of a later try.",
)
def _wrong_number_of_tries(_now: datetime) -> Iterator[str]:
    later = Report.objects.filter(evaluation=OuterRef("pk"), attempt__gt=OuterRef("attempt"))
    beyond = Q(attempt__lt=1) | Q(attempt__gt=settings.MAX_TRIES) | Exists(later)
    return _ids(Evaluation.objects.filter(beyond))


def _last_report() -> QuerySet[Report]:
    return Report.objects.filter(evaluation=OuterRef("pk"), attempt=OuterRef("attempt"))


@invariant(
    "verdict-is-reported", "A verdict is that of the report on the last try. Without a report, three nodes were lost."
)
def _finished_unlike_its_report(_now: datetime) -> Iterator[str]:
    reported = Subquery(_last_report().annotate(reported=_REPORTED).values("reported")[:1])
    finished = _judged().filter(state=State.FINISHED).annotate(reported=reported)
    lost = Q(reported=None, verdict=Verdict.JUDGE_FAILURE.value, attempt=settings.MAX_TRIES)
    return _ids(finished.filter(Q(reported=None) & ~lost | Q(reported__isnull=False) & ~Q(reported=F("verdict"))))


@invariant("report-is-heeded", "An unfinished evaluation has no report on its current try.")
def _report_without_an_end(_now: datetime) -> Iterator[str]:
    return _ids(_judged().exclude(state=State.FINISHED).filter(Exists(_last_report())))


@invariant("one-outcome", "Every try before the last ended with a failure of ours: nothing was decided twice.")
def _second_outcome(_now: datetime) -> Iterator[str]:
    earlier = Report.objects.filter(attempt__lt=F("evaluation__attempt")).annotate(reported=_REPORTED)
    decided = earlier.exclude(reported__in=_RETRIED).order_by().values_list("evaluation_id", flat=True)
    return (str(pk) for pk in decided)
