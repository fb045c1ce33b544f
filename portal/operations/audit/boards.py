"""Boards show what was judged, all of it and once."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, Exists, F, OuterRef, Q

from evaluator.contract import Mode, Verdict
from portal.operations.audit.invariants import invariant
from portal.ranking.models import Board, PersonStanding, Standing
from portal.submissions.models import Evaluation, State
from portal.submissions.queries import quarantined

_PLACE = ("problem", "problem_revision", "profile", "score_rule")


@invariant("standings-were-judged", "Every standing has an accepted evaluation of its author with the same score.")
def _baseless(_now: datetime) -> Iterator[str]:
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


@invariant(
    "accepted-stands",
    "For every accepted ranked evaluation its board has a standing of the same author that is at least as good.",
)
def _left_out(_now: datetime) -> Iterator[str]:
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
    shown = accepted.exclude(submission__in=quarantined().values("submission"))
    return (str(pk) for pk in shown.exclude(Exists(as_good)).order_by().values_list("pk", flat=True))


@invariant("boards-are-counted", "Every board's count is the number of its entries of open accounts.")
def _miscounted(_now: datetime) -> Iterator[str]:
    rows = Standing.objects.filter(author__is_active=True).order_by().values_list(*_PLACE).annotate(Count("pk"))
    standing = {tuple(place): count for *place, count in rows}
    stored = {tuple(place): count for *place, count in Board.objects.values_list(*_PLACE, "entries")}
    for place in standing.keys() | stored.keys():
        if standing.get(place, 0) != stored.get(place, 0):
            yield f"{place[0]} on {place[2]}: {stored.get(place, 0)} counted, {standing.get(place, 0)} there"


@invariant("people-stand", "Everybody listed on a profile has an entry there.")
def _unlisted(_now: datetime) -> Iterator[str]:
    entries = Standing.objects.filter(author=OuterRef("author"), profile=OuterRef("profile"))
    return (f"person {pk}" for pk in PersonStanding.objects.exclude(Exists(entries)).values_list("pk", flat=True))
