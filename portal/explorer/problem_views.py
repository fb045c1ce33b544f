"""The problem list and the problem page."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluator.hardware import profiles
from portal.catalog import costs, facets, rooflines
from portal.catalog.diagrams import diagram
from portal.catalog.highlighting import reference_rows
from portal.catalog.measurements import (
    baselines,
    best_measured_profile,
    public_references,
    published_against_ours,
)
from portal.catalog.queries import get_problem, switch
from portal.core.requests import choice
from portal.ranking import queries as ranking
from portal.ranking.leaders import board_counts, leaders, most_used, profiles_by_speed
from portal.ranking.queries import BoardRow
from portal.submissions.reports import over_size
from problems import registry
from problems.spec.schema import Problem

BOARD_PREVIEW = 5
ROOFLINE_ENTRIES = 20
TABLE_WORLD_SIZE = 8
"""The number of ranks at which the page shows dimensions and work, where the problem allows it."""


@require_safe
def problem_list(request: HttpRequest) -> HttpResponse:
    """Every problem, narrowed by facets and search words from the query string."""
    chosen = {facet.name: request.GET.get(facet.name, "") for facet in facets.FACETS}
    search = request.GET.get("q", "")[:100]
    every = registry.problems()
    counts = board_counts()
    profile = profiles.get(choice(request.GET, "profile", profiles.profiles(), opening=most_used(counts)))
    best = {leader.problem: leader for leader in leaders(profile=profile.name).values()}
    context = {
        "problems": [(problem, best.get(problem.slug)) for problem in facets.find(every, chosen=chosen, search=search)],
        "profile": profile,
        "choices": [(each, counts.get(each.name, 0)) for each in profiles_by_speed()],
        "solved": len(best),
        "beaten": sum(leader.is_faster for leader in best.values()),
        "total": len(every),
        "facets": [(facet, facets.options(every, facet, chosen=chosen, search=search)) for facet in facets.FACETS],
        "search": search,
        "is_narrowed": bool(search) or any(chosen.values()),
    }
    return render(request, "problems/list.html", context)


@require_safe
def problem_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Statement, interface, reference, sizes, cost, roofline and the head of the board."""
    problem = get_problem(slug)
    boards = tuple(ranking.boards_of(slug))
    shown = boards[-1] if boards else None
    board = ranking.board(slug, profile=shown, limit=ROOFLINE_ENTRIES) if shown else ()
    context = {
        "problem": problem,
        "switch": switch(slug),
        "statement": registry.statement(slug),
        "revision": registry.revision(slug),
        **_published(slug),
        "reference": reference_rows(slug),
        "diagrams": [diagram(hop) for hop in problem.hops],
        "sizes": _sizes(problem),
        "floors": costs.floor_rows(problem),
        "judging_profiles": costs.judging_profiles(problem),
        "board_profile": profiles.get(shown) if shown else None,
        "board": board[:BOARD_PREVIEW],
        **_over_sizes(request, problem),
        **_roofline(request, problem, boards, shown=board),
    }
    return render(request, "problems/detail.html", context)


@require_safe
def reference_file(_request: HttpRequest, slug: str) -> HttpResponse:
    text = registry.reference_source(get_problem(slug).slug)
    headers = {"Content-Disposition": f'attachment; filename="{slug}_reference.py"'}
    return HttpResponse(text, content_type="text/x-python; charset=utf-8", headers=headers)


def _over_sizes(request: HttpRequest, problem: Problem) -> dict[str, Any]:
    """The sweeps of a problem that has an axis, on one of the profiles that have any; those ranked by speed first."""
    known = over_size.known_sweeps(problem.slug, request.user) if problem.axes else []
    swept = {each.profile for each in known} | over_size.with_baselines(problem)
    found = [profile for profile in profiles_by_speed() if profile.name in swept]
    name = choice(request.GET, "swept", [each.name for each in found], opening=found[0].name if found else "")
    shown = [each for each in known if each.profile == name]
    return {
        "swept": name,
        "swept_profiles": [(each.name, each.title) for each in found],
        "is_swept_by_speed": any(each.is_ranked_by_speed for each in found),
        **(over_size.over_sizes(request.GET, problem, name, shown) if name else {}),
    }


def _published(slug: str) -> dict[str, Any]:
    """The speed of the published reference of the same problem relative to ours; empty if not measured."""
    table = published_against_ours()
    ratio = table.ratios.get(slug) if table is not None else None
    if table is None or ratio is None:
        return {}
    return {
        "published": table,
        "published_ratio": ratio,
        "published_range": (
            min(each.score for each in table.ratios.values()),
            max(each.score for each in table.ratios.values()),
        ),
    }


def _roofline(
    request: HttpRequest, problem: Problem, boards: Sequence[str], *, shown: Sequence[BoardRow]
) -> dict[str, Any]:
    """The problem under the ceilings of one GPU profile: the one asked for, else one with entries or measured times.

    `boards` are the profiles with entries, `shown` the first entries on the last of them.

    Raises:
        Refusal: the problem has no roofline on the profile that is asked for (404).
    """
    names = [profile.name for profile in costs.judging_profiles(problem) if profile.peaks is not None]
    if not names:
        return {}
    message = "This problem has no roofline on the {field} {value}."
    asked = choice(request.GET, "profile", names, message=message)
    with_entries = [name for name in boards if name in names]
    name = asked or (with_entries[-1] if with_entries else best_measured_profile(names))
    is_shown = bool(boards) and name == boards[-1]
    entries = shown if is_shown else ranking.board(problem.slug, profile=name, limit=ROOFLINE_ENTRIES)
    chosen = rooflines.points_of(problem, profile=name, best=entries[0] if entries else None)
    return {
        "roofline_profile": profiles.get(name),
        "roofline_profiles": [(known, profiles.get(known).title) for known in names],
        "roofline_notes": {known: _roofline_note(known, boards) for known in names},
        "roofline_points": chosen,
        "roofline_figure": rooflines.problem_figure(chosen, entries, profile=profiles.get(name)),
        "public": public_references(name),
    }


def _roofline_note(profile: str, boards: Sequence[str]) -> str:
    """What there is to see on `profile`; empty where there are only ceilings and floors."""
    if profile in boards:
        return "entries"
    return "reference" if baselines(profile) is not None else ""


def _sizes(problem: Problem) -> list[costs.SizeRow]:
    """The sizes at eight ranks, or at the largest world size of a profile that the problem allows."""
    candidates = [TABLE_WORLD_SIZE, *sorted({p.world_size for p in costs.judging_profiles(problem)}, reverse=True)]
    for world_size in candidates:
        rows = costs.size_rows(problem, world_size=world_size)
        if rows:
            return rows
    return []
