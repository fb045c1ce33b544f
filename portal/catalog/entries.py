"""Accepted entries with their times per size: what charts set beside the references."""

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import F, QuerySet, Window
from django.db.models.functions import RowNumber

from evaluator.contract import SizeTiming, Timing
from evaluator.hardware import profiles
from portal.ranking.models import Standing
from portal.ranking.order import board_order
from portal.submissions.models import Report, Visibility
from problems import registry


@dataclass(frozen=True, kw_only=True)
class TimedEntry:
    """An entry of a board with the times that its evaluation measured, by size."""

    problem: str
    author: str
    backend: str
    score: float
    submission_id: uuid.UUID
    is_source_public: bool
    sizes: dict[str, SizeTiming]


def best_entries(profile: str) -> dict[str, TimedEntry]:
    """The first entry of every problem's board on `profile`, by slug; two queries."""
    current = {registry.revision(problem.slug) for problem in registry.problems()}
    first = (
        _standings(profile)
        .filter(problem_revision__in=current)
        .annotate(
            row=Window(RowNumber(), partition_by=[F("problem"), F("problem_revision")], order_by=_order(profile)),
        )
        .filter(row=1)
    )
    return {entry.problem: entry for entry in _timed(first)}


def entries_of(slug: str, *, profile: str, limit: int) -> list[TimedEntry]:
    """The first `limit` entries of a problem's board on `profile`, best first; two queries."""
    standings = _standings(profile).filter(problem=slug, problem_revision=registry.revision(slug))
    return _timed(standings.order_by(*_order(profile))[:limit])


def _standings(profile: str) -> "QuerySet[Standing]":
    return Standing.objects.filter(profile=profile, author__is_active=True).select_related(
        "author", "evaluation__submission"
    )


def _order(profile: str) -> tuple[str, ...]:
    return board_order(is_ranked_by_speed=profiles.get(profile).is_ranked_by_speed)


def _timed(standings: Iterable[Standing]) -> list[TimedEntry]:
    chosen = list(standings)
    reports = Report.objects.filter(evaluation_id__in=[standing.evaluation_id for standing in chosen])
    # Only the timing leaves the database: a report also carries logs and stacks. The last try is the accepted one.
    timings = dict(reports.order_by("attempt").values_list("evaluation_id", "content__timing"))
    return [_entry(standing, timings.get(standing.evaluation_id)) for standing in chosen]


def _entry(standing: Standing, timing: object) -> TimedEntry:
    submission = standing.evaluation.submission
    sizes = Timing.from_json(json.dumps(timing)).sizes if timing else ()
    return TimedEntry(
        problem=standing.problem,
        author=standing.author.username,
        backend=standing.backend,
        score=standing.score,
        submission_id=submission.pk,
        is_source_public=submission.visibility == Visibility.PUBLIC,
        sizes={size.size: size for size in sizes},
    )
