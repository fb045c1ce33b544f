"""Who leads where: the first entry of every board, for the overview and the problem list."""

from collections import Counter
from dataclasses import dataclass

from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber

from evaluator.hardware.profiles import Profile, profiles
from portal.ranking.models import Standing
from portal.ranking.order import board_order
from problems import registry


@dataclass(frozen=True, kw_only=True)
class Leader:
    """The first entry of one problem's board on one profile, and how many entries the board has."""

    problem: str
    profile: str
    author: str
    backend: str
    score: float
    low: float
    high: float
    entries: int
    is_ranked_by_speed: bool


def _current() -> dict[str, str]:
    return {problem.slug: registry.revision(problem.slug) for problem in registry.problems()}


def entry_counts() -> dict[str, int]:
    """How many entries each problem has at its present revision, all profiles together."""
    current = _current()
    counted: Counter[str] = Counter()
    rows = Standing.objects.filter(author__is_active=True).values_list("problem", "problem_revision")
    for slug, revision, count in rows.annotate(entries=Count("id")).order_by():
        if current.get(slug) == revision:
            counted[slug] += count
    return dict(counted)


def leaders() -> dict[tuple[str, str], Leader]:
    """The leader of every board that has entries, by problem and profile; one query per kind of ordering."""
    found = {}
    for by_speed in (True, False):
        chosen = [profile.name for profile in profiles().values() if profile.is_ranked_by_speed is by_speed]
        for leader in _first_of_each(chosen, is_ranked_by_speed=by_speed):
            found[leader.problem, leader.profile] = leader
    return found


def _first_of_each(profile_names: list[str], *, is_ranked_by_speed: bool) -> list[Leader]:
    board = [F("problem"), F("problem_revision"), F("profile")]
    order = board_order(is_ranked_by_speed=is_ranked_by_speed)
    current = _current()
    first = (
        Standing.objects.filter(profile__in=profile_names, author__is_active=True)
        .annotate(
            row=Window(RowNumber(), partition_by=board, order_by=order),
            entries=Window(Count("id"), partition_by=board),
        )
        .filter(row=1, problem__in=current)
        .select_related("author")
    )
    return [
        Leader(
            problem=standing.problem,
            profile=standing.profile,
            author=standing.author.username,
            backend=standing.backend,
            score=standing.score,
            low=standing.score_low,
            high=standing.score_high,
            entries=standing.entries,
            is_ranked_by_speed=is_ranked_by_speed,
        )
        for standing in first
        if standing.problem_revision == current[standing.problem]
    ]


def profiles_by_speed() -> list[Profile]:
    """Profiles that are ranked by speed first, practice boards last."""
    return sorted(profiles().values(), key=lambda profile: not profile.is_ranked_by_speed)
