"""The problem list and the problem page."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluator.contract import is_informative
from evaluator.hardware import profiles
from evaluator.hardware.profiles import Profile
from portal.accounts.models import User
from portal.catalog import costs, facets, patterns, rooflines
from portal.catalog.hardware import chosen_profile, opening_profile
from portal.catalog.highlighting import reference_rows
from portal.catalog.measurements import baselines, public_references, published_against_ours
from portal.catalog.queries import get_problem, switch
from portal.charts.history import attempts_line
from portal.core.requests import choice
from portal.explorer.problem_rows import SORTS, problem_rows
from portal.explorer.problem_times import problem_times
from portal.nodes.queries import online_profiles
from portal.ranking import queries as ranking
from portal.ranking.leaders import board_counts, leaders, profiles_by_speed
from portal.ranking.queries import BoardRow
from portal.runs.solved import solved_by_models
from portal.submissions.queries import own_submissions
from portal.submissions.reports import over_size
from problems import registry
from problems.spec.schema import Problem

BOARD_PREVIEW = 5
ROOFLINE_ENTRIES = 20
OWN_SHOWN, OWN_ATTEMPTS = 5, 30
"""Of the reader's own submissions the page lists some and draws more."""
TABLE_WORLD_SIZE = 8
"""The number of ranks at which the page shows dimensions and work, where the problem allows it."""


@require_safe
def problem_list(request: HttpRequest) -> HttpResponse:
    """Every problem, narrowed by facets and search words from the query string, in the order that it asks for."""
    chosen = {facet.name: request.GET.get(facet.name, "") for facet in facets.FACETS}
    search = request.GET.get("q", "")[:100]
    every = registry.problems()
    counts = board_counts()
    message = "There is no {field} {value}."
    profile = chosen_profile(request, profiles.profiles(), entries=counts, message=message)
    best = {leader.problem: leader for leader in leaders(profile=profile.name).values()}
    sorts = {
        name: label
        for name, (label, _) in SORTS.items()
        if (name != "headroom" or profile.peaks) and (name != "mine" or request.user.is_authenticated)
    }
    wanted = choice(request.GET, "sort", SORTS)
    # An order may be left in the address from other hardware, or from before one signed out.
    sort = wanted if wanted in sorts else "number"
    solving = solved_by_models()
    context = {
        "rows": problem_rows(
            facets.find(every, chosen=chosen, search=search),
            profile=profile,
            best=best,
            solving=solving,
            mine=ranking.solved_by(request.user),
            sort=sort,
        ),
        "sort": sort,
        "sorts": list(sorts.items()),
        "headroom_on": None
        if profile.peaks
        else max((each for each in profiles_by_speed() if each.peaks), key=lambda each: counts.get(each.name, 0)),
        "by_models": solving,
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
    """All that there is of a problem, on one profile: times, the reader's attempts, statement, roofline and board.

    Raises:
        Refusal: there is no such problem, or a profile is asked for that does not judge it (404).
    """
    problem = get_problem(slug)
    judging = costs.judging_profiles(problem)
    names, boards = [profile.name for profile in judging], ranking.boards_of(slug)
    message = "The {field} {value} does not judge this problem."
    profile = chosen_profile(request, names, entries=boards, problem=slug, message=message)
    board = ranking.board(slug, profile=profile.name, limit=ROOFLINE_ENTRIES) if profile.name in boards else ()
    context = {
        "problem": problem,
        "switch": switch(slug),
        "statement": registry.statement(slug),
        "revision": registry.revision(slug),
        **_published(slug),
        "reference": reference_rows(slug),
        "hops": [(hop, patterns.pattern(hop.pattern)) for hop in problem.hops],
        "rank_rows": patterns.rank_rows(),
        "sizes": _sizes(problem),
        "judging_profiles": judging,
        "profile": profile,
        "choices": [(each, _what_there_is(each.name, boards)) for each in judging if each.measures_time],
        "times": problem_times(problem, profile=profile, best=next(iter(board), None))
        if profile.measures_time
        else None,
        "board": board[:BOARD_PREVIEW],
        **_over_sizes(request, problem),
        **_own_attempts(request, slug, profile),
        **_roofline(problem, boards, shown=profile, board=board),
    }
    return render(request, "problems/detail.html", context)


def _own_attempts(request: HttpRequest, slug: str, profile: Profile) -> dict[str, Any]:
    """The reader's last submissions to the problem, and their scores on `profile` as a curve."""
    if not isinstance(request.user, User):
        return {}
    own = list(own_submissions(request.user, problem=slug)[:OWN_ATTEMPTS])
    latest = [submission.evaluations.all()[0] for submission in reversed(own)]
    scores = [
        (each.score, each.score_low, each.score_high)
        for each in latest
        if each.profile == profile.name and each.score and each.score_low and each.score_high
        if is_informative(each.score_low, each.score_high)
    ]
    curve = attempts_line(scores) if len(scores) > 1 and profile.measures_time else None
    return {"own": own[:OWN_SHOWN], "own_count": len(own), "own_curve": curve, "online": online_profiles()}


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
        **(over_size.over_sizes(request.GET, problem, name, shown) if name else {}),
    }


def _published(slug: str) -> dict[str, Any]:
    """The speed of the published reference of the same problem relative to ours; empty if not measured."""
    table = published_against_ours()
    if table is None or slug not in table.ratios:
        return {}
    scores = [each.score for each in table.ratios.values()]
    return {
        "published": table,
        "published_ratio": table.ratios[slug],
        "published_range": (min(scores), max(scores)),
    }


def _roofline(
    problem: Problem, boards: Mapping[str, int], *, shown: Profile, board: Sequence[BoardRow]
) -> dict[str, Any]:
    """The problem under the ceilings of the profile that the page shows, or of another where that one has none.

    `boards` are the profiles with entries, `board` the first entries on `shown`.
    """
    names = [profile.name for profile in costs.judging_profiles(problem) if profile.peaks is not None]
    if not names:
        return {}
    last = shown.name if shown.name in names else ""
    name = opening_profile(names, entries=boards, problem=problem.slug, last=last)
    entries = board if name == shown.name else ranking.board(problem.slug, profile=name, limit=ROOFLINE_ENTRIES)
    chosen = rooflines.points_of(problem, profile=name, best=entries[0] if entries else None)
    return {
        "roofline_profile": profiles.get(name),
        "roofline_points": chosen,
        "roofline_figure": rooflines.problem_figure(chosen, entries, profile=profiles.get(name)),
        "public": public_references(name),
    }


def _what_there_is(profile: str, boards: Mapping[str, int]) -> str:
    """What there is to see on `profile`; empty where there are only ceilings and floors."""
    if profile in boards:
        return "entries"
    return "reference" if baselines(profile) is not None else ""


def _sizes(problem: Problem) -> list[costs.SizeRow]:
    """The sizes at eight ranks, or at the largest world size of a profile that the problem allows."""
    candidates = [TABLE_WORLD_SIZE, *sorted({p.world_size for p in costs.judging_profiles(problem)}, reverse=True)]
    return next(filter(None, (costs.size_rows(problem, world_size=each) for each in candidates)), [])
