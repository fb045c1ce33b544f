"""Boards of what guests' nodes judged: apart from the site's own boards, and from all that is derived from those."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from evaluator.contract import SCORE_RULE
from evaluator.hardware import profiles
from portal.accounts.models import Organisation
from portal.nodes.models import Node
from portal.submissions.models import Evaluation, State, Visibility
from portal.submissions.queries import quarantined
from problems import registry


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What the site's own node found of a guest's entry; `agrees` where both intervals share a value."""

    verdict: str
    score: float | None
    low: float | None
    high: float | None
    judged_at: datetime
    agrees: bool


@dataclass(frozen=True, kw_only=True)
class GuestRow:
    """An author's best entry on a guest's board; `place` is None on practice profiles."""

    place: int | None
    author: str
    backend: str
    score: float
    low: float
    high: float
    judged_at: datetime
    node: str
    submission_id: UUID
    evaluation_id: UUID
    is_source_public: bool
    confirmation: Confirmation | None


@dataclass(frozen=True, kw_only=True)
class GuestBoard:
    """A board of an owner: a problem on a profile, judged by that owner's machines."""

    problem: str
    title: str
    profile: str
    is_ranked_by_speed: bool
    rows: tuple[GuestRow, ...]


def nodes_of(owner: Organisation) -> QuerySet[Node]:
    """The owner's nodes, revoked ones too."""
    return owner.nodes.prefetch_related("slots")


def boards_of(owner: Organisation) -> tuple[GuestBoard, ...]:
    """Every board of an owner with an entry at the problem's current revision, by problem and profile."""
    entries = _best(_accepted(owner))
    confirmed = _confirmations(entries)
    titles = {problem.slug: (problem.number, problem.title) for problem in registry.problems()}
    boards: dict[tuple[str, str], list[Evaluation]] = {}
    for evaluation in entries:
        boards.setdefault((evaluation.submission.problem, evaluation.profile), []).append(evaluation)
    ordered = sorted(boards.items(), key=lambda board: (titles[board[0][0]][0], board[0][1]))
    return tuple(_board(*key, titles[key[0]][1], found, confirmed) for key, found in ordered)


def _accepted(owner: Organisation) -> QuerySet[Evaluation]:
    current = [registry.revision(problem.slug) for problem in registry.problems()]
    return (
        Evaluation.objects.filter(
            node_owner=owner,
            state=State.FINISHED,
            verdict="PASSED",
            mode="ranked",
            score_rule=SCORE_RULE,
            score__isnull=False,
            problem_revision__in=current,
            submission__is_attempt=False,
            submission__author__is_active=True,
        )
        .exclude(submission__in=quarantined().values("submission"))
        .select_related("submission__author", "node")
    )


def _best(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Every author's best per problem and profile."""
    best: dict[tuple[int, str, str], Evaluation] = {}
    for evaluation in evaluations:
        key = (evaluation.submission.author_id, evaluation.submission.problem, evaluation.profile)
        if key not in best or _order(evaluation) < _order(best[key]):
            best[key] = evaluation
    return list(best.values())


def _order(evaluation: Evaluation) -> tuple[float, datetime]:
    return (-(evaluation.score_low or 0.0), evaluation.submission.created_at)


def _confirmations(entries: list[Evaluation]) -> dict[tuple[UUID, str], Confirmation]:
    """What the site's own nodes found of the same submissions on the same profiles, the newest of each."""
    wanted = {(entry.submission_id, entry.profile): entry for entry in entries}
    own = Evaluation.objects.filter(
        submission__in=[entry.submission_id for entry in entries],
        node_owner=None,
        mode="ranked",
        state=State.FINISHED,
        recorded_on=None,
    )
    found = {}
    for judged in own.order_by("finished_at"):
        entry = wanted.get((judged.submission_id, judged.profile))
        if entry is not None and entry.problem_revision == judged.problem_revision and judged.finished_at is not None:
            found[judged.submission_id, judged.profile] = _confirmation(entry, judged, judged.finished_at)
    return found


def _confirmation(entry: Evaluation, judged: Evaluation, at: datetime) -> Confirmation:
    return Confirmation(
        verdict=judged.verdict,
        score=judged.score,
        low=judged.score_low,
        high=judged.score_high,
        judged_at=at,
        agrees=judged.verdict == "PASSED" and _overlap(entry, judged),
    )


def _overlap(one: Evaluation, other: Evaluation) -> bool:
    ends = (one.score_low, one.score_high, other.score_low, other.score_high)
    low, high, other_low, other_high = (value if value is not None else float("nan") for value in ends)
    return low <= other_high and other_low <= high


def _board(
    problem: str,
    profile: str,
    title: str,
    entries: list[Evaluation],
    confirmed: dict[tuple[UUID, str], Confirmation],
) -> GuestBoard:
    by_speed = profiles.get(profile).is_ranked_by_speed
    ordered = sorted(entries, key=_order if by_speed else lambda entry: entry.submission.created_at)
    return GuestBoard(
        problem=problem,
        title=title,
        profile=profile,
        is_ranked_by_speed=by_speed,
        rows=tuple(
            _row(entry, place if by_speed else None, confirmed.get((entry.submission_id, profile)))
            for place, entry in enumerate(ordered, start=1)
        ),
    )


def _row(entry: Evaluation, place: int | None, confirmation: Confirmation | None) -> GuestRow:
    assert entry.score is not None  # only scored entries were asked for
    assert entry.score_low is not None
    assert entry.score_high is not None
    submission = entry.submission
    return GuestRow(
        place=place,
        author=submission.author.username,
        backend=submission.backend,
        score=entry.score,
        low=entry.score_low,
        high=entry.score_high,
        judged_at=entry.finished_at or submission.created_at,
        node=entry.node.name if entry.node else "",
        submission_id=submission.pk,
        evaluation_id=entry.pk,
        is_source_public=submission.visibility == Visibility.PUBLIC,
        confirmation=confirmation,
    )
