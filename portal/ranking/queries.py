"""Reads of the boards."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from evaluator.hardware import profiles
from portal.ranking.models import Standing
from portal.ranking.order import board_order
from portal.submissions.models import Visibility
from problems import registry


@dataclass(frozen=True, kw_only=True)
class BoardRow:
    """One line of a board.

    `place` is None on practice boards, which order nobody by speed. `overlaps_above` marks an entry whose interval
    overlaps that of the entry above, so that the two cannot be told apart.
    """

    place: int | None
    author: str
    backend: str
    score: float
    low: float
    high: float
    overlaps_above: bool
    submitted_at: datetime
    submission_id: uuid.UUID
    evaluation_id: uuid.UUID
    is_source_public: bool


def board(
    problem_slug: str, *, profile: str, backend: str | None = None, revision: str | None = None
) -> tuple[BoardRow, ...]:
    """The board of a problem on a profile, best first.

    `backend` None ranks all backends together; `revision` None means the problem as it is now, an older one is the
    archive. Authors whose account is closed are left out.

    Raises:
        problems.registry.UnknownProblem, evaluator.hardware.profiles.UnknownProfile.
    """
    is_ranked_by_speed = profiles.get(profile).is_ranked_by_speed
    standings = Standing.objects.filter(
        problem=problem_slug,
        problem_revision=revision or registry.revision(problem_slug),
        profile=profile,
        author__is_active=True,
    )
    if backend is not None:
        standings = standings.filter(backend=backend)
    ordered = standings.select_related("author", "evaluation__submission").order_by(
        *board_order(is_ranked_by_speed=is_ranked_by_speed)
    )
    rows: list[BoardRow] = []
    for place, standing in enumerate(ordered, start=1):
        above = rows[-1] if rows and is_ranked_by_speed else None
        rows.append(_row(standing, place=place if is_ranked_by_speed else None, above=above))
    return tuple(rows)


def profiles_with_entries(problem_slug: str, *, revision: str | None = None) -> tuple[str, ...]:
    """The profiles on which the problem has at least one entry, in the order of the profiles."""
    found = set(
        Standing.objects.filter(
            problem=problem_slug,
            problem_revision=revision or registry.revision(problem_slug),
            author__is_active=True,
        ).values_list("profile", flat=True)
    )
    return tuple(name for name in profiles.profiles() if name in found)


def _row(standing: Standing, *, place: int | None, above: BoardRow | None) -> BoardRow:
    submission = standing.evaluation.submission
    return BoardRow(
        place=place,
        author=standing.author.username,
        backend=standing.backend,
        score=standing.score,
        low=standing.score_low,
        high=standing.score_high,
        overlaps_above=above is not None and standing.score_high >= above.low,
        submitted_at=standing.submitted_at,
        submission_id=submission.pk,
        evaluation_id=standing.evaluation_id,
        is_source_public=submission.visibility == Visibility.PUBLIC,
    )
