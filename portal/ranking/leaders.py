"""Who leads where: the first entry of every board, for overviews, and side by side at every number of ranks."""

from typing import Any

from django.db.models import Case, Count, OuterRef, QuerySet, Subquery, When
from django.db.models.functions import Coalesce

from evaluator.contract import SCORE_RULE, is_faster
from evaluator.hardware.profiles import Profile, profiles
from portal.catalog.references import reference_row
from portal.ranking.models import Board, Standing, board_order
from portal.ranking.queries import COLUMNS, BoardRow, board_row, current
from problems import registry
from problems.spec.schema import Problem


def _current_boards(*, profile: str | None = None, problem: str | None = None) -> QuerySet[Board]:
    """The boards with entries at the problems' current revisions, by the current rule."""
    shown = list(profiles()) if profile is None else [profile]
    return Board.objects.filter(profile__in=shown, entries__gt=0, **current(problem))


def board_counts() -> dict[str, int]:
    """How many boards have entries, by profile, in the order of the profiles; profiles without any left out."""
    counted = dict(_current_boards().order_by().values_list("profile").annotate(boards=Count("pk")))
    return {name: counted[name] for name in profiles() if name in counted}


def leaders(*, profile: str | None = None, problem: str | None = None) -> dict[tuple[str, str], BoardRow]:
    """The leader of every board that has entries (of one profile, of one problem), by problem and profile.

    Two queries, whatever the number of boards and entries.
    """
    return _leaders_of(_current_boards(profile=profile, problem=problem), profile=profile)


def best_leaders(*, profile: str | None = None) -> dict[str, BoardRow]:
    """By problem the leader of its best board, on one profile or anywhere: the board whose record begins highest.

    A practice board, which does not order by speed, is used for a problem that has no other.
    """
    chosen = [board.pk for board in _best_boards(profile=profile).values()]
    return {slug: leader for (slug, _), leader in _leaders_of(Board.objects.filter(pk__in=chosen)).items()}


def _practice() -> list[str]:
    return [name for name, chosen in profiles().items() if not chosen.is_ranked_by_speed]


def _best_boards(*, profile: str | None) -> dict[str, Any]:
    """By problem its best board: `pk`, `profile` and `low`, the lower end of its record where speed counts, else 0."""
    low = Case(When(profile__in=_practice(), then=0.0), default=Coalesce("record_low", 0.0))
    # Rows instead of models: there is a board for every problem and profile.
    boards = _current_boards(profile=profile).annotate(low=low).order_by("low", "-pk")
    return {row.problem: row for row in boards.values_list("pk", "problem", "profile", "low", named=True)}


def _leaders_of(boards: QuerySet[Board], *, profile: str | None = None) -> dict[tuple[str, str], BoardRow]:
    leader: Case | Subquery
    if profile is None:
        practice = When(profile__in=_practice(), then=_first(is_ranked_by_speed=False))
        leader = Case(practice, default=_first(is_ranked_by_speed=True))
    else:
        leader = _first(is_ranked_by_speed=profiles()[profile].is_ranked_by_speed)
    rows = boards.annotate(leader=leader).values_list("leader", "entries")
    entries = {standing: entries for standing, entries in rows if standing}
    found = Standing.objects.filter(pk__in=list(entries)).values(*COLUMNS)
    return {(row["problem"], row["profile"]): board_row(row, place=None, entries=entries[row["id"]]) for row in found}


def _first(*, is_ranked_by_speed: bool) -> Subquery:
    entries = Standing.objects.filter(
        problem=OuterRef("problem"),
        problem_revision=OuterRef("problem_revision"),
        profile=OuterRef("profile"),
        score_rule=OuterRef("score_rule"),
        author__is_active=True,
    )
    return Subquery(entries.order_by(*board_order(is_ranked_by_speed=is_ranked_by_speed)).values("pk")[:1])


def reached() -> tuple[set[str], set[str]]:
    """The problems that somebody has solved somewhere, and those of which somebody has beaten the reference."""
    best = _best_boards(profile=None)
    known = {problem.slug for problem in registry.problems()} & best.keys()
    return known, {slug for slug in known if is_faster(best[slug].low)}


def open_problems(*, profile: str | None = None) -> dict[str, Any]:
    """What is still to be done, on one profile or anywhere: `unsolved` problems, and `unbeaten` ones with their leader.

    A problem counts as beaten where the whole interval of some board's leader lies above 1; practice boards beat
    nothing.
    """
    best = _best_boards(profile=profile)
    unbeaten = {slug: board for slug, board in best.items() if not is_faster(board.low)}
    shown = [board.pk for board in unbeaten.values() if profiles()[board.profile].is_ranked_by_speed]
    closest = {slug: leader for (slug, _), leader in _leaders_of(Board.objects.filter(pk__in=shown)).items()}
    every = registry.problems()
    return {
        "unsolved": [problem for problem in every if problem.slug not in best],
        "unbeaten": [(problem, closest.get(problem.slug)) for problem in every if problem.slug in unbeaten],
    }


def profiles_by_speed() -> list[Profile]:
    """Profiles that are ranked by speed first, practice boards last."""
    return sorted(profiles().values(), key=lambda profile: not profile.is_ranked_by_speed)


def families(problem: Problem) -> list[dict[str, Any]]:
    """Every kind of machine with an entry or a measured reference, the kinds with most numbers of ranks first.

    A kind is of one GPU with multicast on or off. `measured` are its profiles at which something was measured by the
    current rule, fewest ranks first, each with its leader, None where the board is empty, and the reference.
    """
    found = leaders(problem=problem.slug)
    grouped: dict[tuple[str, bool], list[Profile]] = {}
    for profile in profiles().values():
        if profile.measures_time and problem.refuses_world_size(profile.world_size) is None:
            grouped.setdefault((profile.gpu or "CPU", profile.multicast), []).append(profile)
    made = [_family(gpu, group, found, problem) for (gpu, _), group in grouped.items()]
    return sorted((family for family in made if family["measured"]), key=lambda family: -len(family["measured"]))


def _family(gpu: str, group: list[Profile], found: dict[tuple[str, str], BoardRow], problem: Problem) -> dict[str, Any]:
    measured = []
    for profile in sorted(group, key=lambda profile: profile.world_size):
        leader = found.get((problem.slug, profile.name))
        reference = reference_row(problem, profile=profile.name, beside=leader.sizes if leader else ())
        if leader is not None or (reference.sizes and reference.rule == SCORE_RULE):
            measured.append((profile, leader, reference))
    # The profiles of a kind are alike in these.
    suffix = "" if profile.multicast or profile.gpu is None else ", multicast off"
    return {
        "title": f"{gpu}{suffix}" if profile.gpu else "CPU ranks (practice)",
        "is_ranked_by_speed": profile.is_ranked_by_speed,
        "measured": measured,
    }
