"""Keeping standings, and what is derived from them, in step with the evaluations."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Max, QuerySet

from evaluator.contract import SCORE_RULE, is_faster
from evaluator.hardware import profiles
from portal.accounts.models import User
from portal.catalog.size_times import SizeTime, size_times, to_stored
from portal.ranking.hooks import StandingRaised
from portal.ranking.models import BOARD, BOARD_SIZES, Board, PersonStanding, Record, Standing, is_better
from portal.submissions import queries as submissions
from portal.submissions.models import Evaluation, State, Submission
from problems import registry

UNTIMED_SCORE = 1.0
"""Of an entry on a board where nothing is timed. By its interval, 0 to 0, pages and answers leave it out."""


def raise_standing(evaluation: Evaluation) -> StandingRaised | None:
    """Let a finished evaluation become its author's standing if it is their best; None where it did not.

    Runs inside the transaction that ends the evaluation. Only ranked evaluations that PASSED count. Renews, in this
    order, the standing, the board with its record, and the author's row among the people.
    """
    if evaluation.state != State.FINISHED or evaluation.verdict != "PASSED" or evaluation.mode != "ranked":
        return None
    is_timed = profiles.get(evaluation.profile).measures_time
    scores = (evaluation.score, evaluation.score_high) if is_timed else ()
    if None in (*scores, evaluation.score_low, evaluation.score_rule):
        return None
    if evaluation.submission.is_attempt or evaluation.node_owner_id is not None:
        # It belongs to a model's run, or a guest's machine judged it: never on a person's board of the site.
        return None
    with transaction.atomic():
        if submissions.quarantine_of(evaluation.submission) is not None:
            return None
        standing, previous_low = _renewed(evaluation)
        if standing is None:
            return None
        beaten = _renew_board(standing, is_new=previous_low is None)
        renew_person(standing.author_id, profile=standing.profile)
    return StandingRaised(standing=standing, previous_low=previous_low, beaten=beaten)


def _renewed(evaluation: Evaluation) -> tuple[Standing | None, float | None]:
    """The standing that `evaluation` made or bettered and its lower end before; None where it did neither."""
    submission = evaluation.submission
    place = {
        "author_id": submission.author_id,
        "problem": submission.problem,
        "problem_revision": evaluation.problem_revision,
        "profile": evaluation.profile,
        "backend": submission.backend,
        "score_rule": evaluation.score_rule,
    }
    low: float = evaluation.score_low  # type: ignore[assignment]  # the caller has looked
    report = submissions.latest_report(evaluation)
    values = {
        "evaluation": evaluation,
        "score": UNTIMED_SCORE if evaluation.score is None else evaluation.score,
        "score_low": low,
        "score_high": low if evaluation.score_high is None else evaluation.score_high,
        "submitted_at": submission.created_at,
        **columns_of(size_times(report.timing) if report is not None and report.timing is not None else ()),
        "primitives": evaluation.primitives,
    }
    # get_or_create and the row lock decide between two evaluations of one author that end at the same moment.
    standing, is_new = Standing.objects.select_for_update().get_or_create(**place, defaults=values)
    if is_new:
        return standing, None
    previous_low = standing.score_low
    if not is_better(low, submission.created_at, than=(previous_low, standing.submitted_at)):
        return None, None
    Standing.objects.filter(pk=standing.pk).update(**values)
    standing.refresh_from_db()
    return standing, previous_low


def columns_of(times: Sequence[SizeTime]) -> dict[str, Any]:
    lows = {time.size: time.low for time in times}
    return {"sizes": to_stored(times), **{f"low_{size}": lows.get(size) for size in BOARD_SIZES}}


def _renew_board(standing: Standing, *, is_new: bool) -> Record | None:
    """Count a new entry, and note a record: the row lock lets one of two that end at the same moment go first.

    Returns the record that a new one replaced.
    """
    place: dict[str, Any] = {name: getattr(standing, name) for name in BOARD}
    board, _ = Board.objects.select_for_update().get_or_create(**place)
    if is_new:
        Board.objects.filter(pk=board.pk).update(entries=F("entries") + 1)
    if not _is_record(standing.score_low, previous=board.record_low, profile=standing.profile):
        return None
    counting = Record.objects.filter(**place, author__is_active=True).exclude(evaluation=standing.evaluation)
    beaten = counting.select_related("author").order_by("-reached_at", "-id").first()
    Board.objects.filter(pk=board.pk).update(record_low=standing.score_low)
    values = _record(standing.evaluation, place, previous=board.record_low)
    Record.objects.get_or_create(evaluation=standing.evaluation, defaults=values)
    return beaten


def _is_record(low: float, *, previous: float | None, profile: str) -> bool:
    chosen = profiles.get(profile)
    if previous is None:
        return chosen.measures_time
    return chosen.is_ranked_by_speed and low > previous


def renew_person(author_id: int, *, profile: str) -> None:
    """Recompute an author's row among the people of a profile."""
    rows = Standing.objects.filter(author_id=author_id, profile=profile, score_rule=SCORE_RULE)
    best: dict[str, tuple[float, float]] = {}
    reached: list[datetime] = []
    known = {problem.slug for problem in registry.problems()}
    for slug, revision, low, score, submitted_at in rows.values_list(
        "problem", "problem_revision", "score_low", "score", "submitted_at"
    ):
        if slug in known and registry.revision(slug) == revision:
            best[slug] = max(best.get(slug, (low, score)), (low, score))
            reached.append(submitted_at)
    if not best:
        PersonStanding.objects.filter(author_id=author_id, profile=profile).delete()
        return
    by_speed = profiles.get(profile).is_ranked_by_speed
    PersonStanding.objects.update_or_create(
        author_id=author_id,
        profile=profile,
        defaults={
            "solved": len(best),
            "faster": sum(is_faster(low) for low, _ in best.values()) if by_speed else 0,
            "mean_score": math.exp(sum(math.log(score) for _, score in best.values()) / len(best)),
            "reached_at": max(reached),
            "catalog_digest": catalog_digest(),
        },
    )


@cache
def catalog_digest() -> str:
    """A digest of the rule and the current revisions of all problems: rows derived under another are out of date."""
    revisions = f"rule {SCORE_RULE}\n" + "".join(
        f"{problem.slug} {registry.revision(problem.slug)}\n" for problem in registry.problems()
    )
    return hashlib.sha256(revisions.encode()).hexdigest()[:16]


def is_rebuild_needed() -> bool:
    """Whether rule or problems changed since people were counted, or standings lack what is derived from them."""
    if PersonStanding.objects.exclude(catalog_digest=catalog_digest()).exists():
        return True
    return Standing.objects.exists() and not Board.objects.exists()


def recount_boards(author: User) -> None:
    """Recount the entries of the boards of `author`, after their account was closed or opened."""
    for place in places_of(Standing.objects.filter(author=author)):
        _recount(place)
        _renew_records(place)


def change_quarantine(submission: Submission, *, is_quarantined: bool) -> None:
    """Remove an entry from its boards or restore it there: places, records and people follow."""
    passed = _passed().filter(submission=submission)
    places = _places(passed)
    if is_quarantined:
        forget(passed)
    else:
        for evaluation in passed.select_related("submission").order_by("finished_at", "id"):
            raise_standing(evaluation)
    for place in places:
        _recount(place)
        _renew_records(place)


def order_records(evaluation: Evaluation) -> None:
    """Recompute the records of a board that an entry has joined later than it was judged: they go by time."""
    for place in _places(_passed().filter(pk=evaluation.pk)):
        _renew_records(place)


def _places(evaluations: QuerySet[Evaluation]) -> Sequence[Mapping[str, Any]]:
    """The boards of scored evaluations."""
    columns = evaluations.exclude(score_rule=None).values("problem_revision", "profile", "score_rule")
    return list(columns.annotate(problem=F("submission__problem")).order_by().distinct())


def _passed() -> QuerySet[Evaluation]:
    return Evaluation.objects.filter(state=State.FINISHED, verdict="PASSED", mode="ranked")


def _renew_records(place: Mapping[str, Any]) -> None:
    """Recompute the records of a board as if the entries that no longer count had never been there."""
    counted = submissions.accepted().filter(**_judged(place))
    kept: list[Any] = []
    previous: float | None = None
    for evaluation in counted.exclude(score_low=None).order_by("finished_at", "id").iterator():
        low: float = evaluation.score_low  # type: ignore[assignment]  # those without were left out
        if _is_record(low, previous=previous, profile=place["profile"]):
            values = _record(evaluation, place, previous=previous)
            Record.objects.update_or_create(evaluation=evaluation, defaults=values)
            kept.append(evaluation.pk)
            previous = low
    Record.objects.filter(**place).exclude(evaluation__in=kept).delete()


def _judged(place: Mapping[str, Any]) -> dict[str, Any]:
    """A board as columns of evaluations."""
    return {f"submission__{name}" if name == "problem" else name: value for name, value in place.items()}


def _record(evaluation: Evaluation, place: Mapping[str, Any], *, previous: float | None) -> dict[str, Any]:
    return {
        **place,
        "author_id": evaluation.submission.author_id,
        "backend": evaluation.submission.backend,
        "score": evaluation.score,
        "score_low": evaluation.score_low,
        "score_high": evaluation.score_high,
        "previous_low": previous,
        "reached_at": evaluation.finished_at or evaluation.submission.created_at,
    }


def places_of(standings: QuerySet[Standing]) -> Sequence[Mapping[str, Any]]:
    return list(standings.values(*BOARD).distinct())


def _recount(place: Mapping[str, Any]) -> None:
    best = Standing.objects.filter(**place, author__is_active=True).aggregate(count=Count("id"), low=Max("score_low"))
    Board.objects.filter(**place).update(entries=best["count"], record_low=best["low"])


def forget(evaluations: QuerySet[Evaluation]) -> None:
    """Remove `evaluations` from everything derived: their authors' next best evaluations replace them.

    Runs inside the transaction that deletes them.
    """
    standings = Standing.objects.filter(evaluation__in=evaluations)
    places, people = places_of(standings), list(standings.values_list("author_id", "profile").distinct())
    authors = {author for author, _ in people}
    standings.delete()
    Record.objects.filter(evaluation__in=evaluations).delete()
    for place in places:
        _recount(place)
        others = Evaluation.objects.exclude(pk__in=evaluations.values("pk")).filter(
            submission__author__in=authors, **_judged(place)
        )
        for evaluation in others.select_related("submission").order_by("finished_at", "id"):
            raise_standing(evaluation)
    for author, profile in people:
        renew_person(author, profile=profile)


def rebuild_standings() -> int:
    """Recompute every standing, board, record and person from the evaluations; returns the number of standings.

    Needed after an evaluation was withdrawn, and after problems got a new revision: people count current ones only.
    """
    with transaction.atomic():
        for derived in (PersonStanding, Record, Board, Standing):
            derived.objects.all().delete()
        passed = _passed().exclude(submission__in=submissions.quarantined().values("submission"))
        for evaluation in passed.select_related("submission").order_by("finished_at", "id").iterator():
            raise_standing(evaluation)
        for author in User.objects.filter(is_active=False, standings__isnull=False).distinct():
            recount_boards(author)
        return Standing.objects.count()
