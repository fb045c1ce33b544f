"""The problem list and the problem page."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluator.hardware import profiles
from portal.catalog import costs, facets
from portal.catalog.diagrams import diagram
from portal.catalog.highlighting import highlight_lines
from portal.catalog.queries import get_problem, switch
from portal.ranking import queries as ranking
from portal.ranking.leaders import entry_counts
from problems import registry
from problems.schema import Problem

BOARD_PREVIEW = 5
TABLE_WORLD_SIZE = 8
"""The number of ranks at which the page shows dimensions and work, where the problem allows it."""


@require_safe
def problem_list(request: HttpRequest) -> HttpResponse:
    """Every problem, narrowed by facets and search words from the query string."""
    chosen = {facet.name: request.GET.get(facet.name, "") for facet in facets.FACETS}
    search = request.GET.get("q", "")[:100]
    every = registry.problems()
    context = {
        "problems": facets.find(every, chosen=chosen, search=search),
        "total": len(every),
        "facets": [(facet, facets.options(every, facet, chosen=chosen, search=search)) for facet in facets.FACETS],
        "search": search,
        "is_narrowed": bool(search) or any(chosen.values()),
        "entries": entry_counts(),
    }
    return render(request, "problems/list.html", context)


@require_safe
def problem_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Statement, interface, reference, sizes, cost and the head of the board."""
    problem = get_problem(slug)
    boards = ranking.profiles_with_entries(slug)
    shown = boards[-1] if boards else None
    context = {
        "problem": problem,
        "switch": switch(slug),
        "statement": registry.statement(slug),
        "revision": registry.revision(slug),
        "reference": list(highlight_lines(registry.reference_source(slug), language="python")),
        "diagrams": [diagram(hop) for hop in problem.hops],
        "sizes": _sizes(problem),
        "floors": costs.floor_rows(problem),
        "judging_profiles": costs.judging_profiles(problem),
        "board_profile": profiles.get(shown) if shown else None,
        "board": ranking.board(slug, profile=shown, limit=BOARD_PREVIEW) if shown else (),
    }
    return render(request, "problems/detail.html", context)


def _sizes(problem: Problem) -> list[costs.SizeRow]:
    """The sizes at eight ranks, or at the largest world size of a profile that the problem allows."""
    candidates = [TABLE_WORLD_SIZE, *sorted({p.world_size for p in costs.judging_profiles(problem)}, reverse=True)]
    for world_size in candidates:
        rows = costs.size_rows(problem, world_size=world_size)
        if rows:
            return rows
    return []
