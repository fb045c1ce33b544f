"""The boards: of problems, of people, records, scaling, what is open, and what others published."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from evaluator.contract import Backend, Mode, Primitive, is_informative
from evaluator.hardware import profiles
from portal.catalog.facets import FACETS, grouped
from portal.catalog.queries import chosen_profile, get_problem, judging_profiles, switch
from portal.catalog.references import ReferenceRow, reference_row
from portal.charts import runs, times
from portal.charts.chart import Axis, Chart, Scale, Unit
from portal.core.errors import choice
from portal.nodes.queries import guest_owner
from portal.ranking import guests, leaders, people, published, published_charts, published_programs, queries
from portal.tabular.tables import as_download
from problems import registry
from problems.spec.schema import Problem

PAGE_ROWS, BEST_PLACES = 50, 5
_TIME = Axis(title="Time of a call", scale=Scale.LOG, unit=Unit.MICROSECONDS)
_NOT_HERE = "This board has no {field} {value}."
_choice = partial(choice, message=_NOT_HERE)

_GROUPINGS = {facet.name: facet for facet in FACETS if facet.name in ("category", "source", "parallelism")}


@require_safe
def board(request: HttpRequest, slug: str) -> HttpResponse:
    """The board of one problem on one profile: of one backend or of all, at one size or at all together."""
    problem = get_problem(slug)
    choices = judging_profiles(problem)
    entries = queries.boards_of(slug)
    profile = chosen_profile(request, [each.name for each in choices], entries=entries, problem=slug, message=_NOT_HERE)
    sizes = profile.sizes[Mode.RANKED]
    key = queries.BoardKey(
        problem=slug,
        profile=profile.name,
        revision=registry.revision(slug),
        backend=_choice(request.GET, "backend", Backend) or None,
        size=_chosen_size(request, sizes),
        primitive=_choice(request.GET, "primitive", Primitive) or None,
    )
    page = queries.board_page(key, **_cursors(request), rows=PAGE_ROWS)
    context = {
        "problem": problem,
        "switch": switch(slug),
        "profile": profile,
        "key": key,
        "page": page,
        "rows": page.rows,
        "choices": _with_entries(choices, entries),
        # A board may be narrowed by what there is more than one of to choose.
        "sizes": sizes if len(sizes) > 1 and profile.measures_time else (),
        "primitives": list(Primitive) if profile.is_on_gpus else (),
        "backends": profile.backends if len(profile.backends) > 1 else (),
        "entries": entries.get(profile.name, 0),
        "edges": _edges(page.rows),
        "primitive_notes": Counter(primitive for row in page.rows for primitive in row.primitives),
        "has_floors": profile.peaks is not None,
        "is_untimed": not profile.measures_time,
        "own_name": request.user.get_username(),
        "quarantined": queries.quarantined_entries(key),
        "reference": _reference(problem, key) if profile.measures_time else None,
    }
    return render(request, "ranking/board.html", context)


def _reference(problem: Problem, key: queries.BoardKey) -> ReferenceRow:
    """The reference as a row of the board, timed side by side with the board's first entry if there is one."""
    first = queries.board(problem.slug, profile=key.profile, limit=1)
    return reference_row(problem, profile=key.profile, beside=first[0].sizes if first else (), size=key.size)


def _with_entries(
    choices: Iterable[profiles.Profile], entries: Mapping[str, int]
) -> list[tuple[profiles.Profile, int]]:
    """The profiles with their number of entries, practice boards last."""
    ordered = sorted(choices, key=lambda choice: not choice.is_ranked_by_speed)
    return [(choice, entries.get(choice.name, 0)) for choice in ordered]


@require_safe
def people_board(request: HttpRequest) -> HttpResponse:
    """Everybody with an accepted entry on a profile, by problems solved faster than the reference."""
    counts = leaders.board_counts()
    profile = chosen_profile(request, profiles.profiles(), entries=counts, message=_NOT_HERE)
    every = _with_entries(profiles.profiles().values(), counts)
    context = {
        "profile": profile,
        "choices": [(choice, count) for choice, count in every if count or choice is profile],
        "page": people.people_page(profile=profile.name, **_cursors(request)),
        "total": len(registry.problems()),
    }
    return render(request, "ranking/people.html", context)


@require_safe
def person(request: HttpRequest, username: str) -> HttpResponse:
    """One author's accepted entries at the problems' current revisions."""
    found = people.get_person(username)
    context = {
        "person": found,
        "totals": people.totals_of(found),
        "places": queries.places_of(found, most=BEST_PLACES),
        "records": people.records_of(found),
        "practice": {name for name, profile in profiles.profiles().items() if not profile.is_ranked_by_speed},
        "page": people.entries_page(found, **_cursors(request)),
        "quarantined": queries.quarantined_entries_of(found),
        "own_name": request.user.get_username(),
        "titles": _titles(),
    }
    return render(request, "ranking/person.html", context)


@require_safe
def records(request: HttpRequest) -> HttpResponse:
    name = _choice(request.GET, "profile", profiles.profiles()) or None
    context = {
        "page": queries.records_page(profile=name, **_cursors(request), rows=PAGE_ROWS),
        "titles": _titles(),
        "profile": name,
        "choices": _with_entries(profiles.profiles().values(), leaders.board_counts()),
    }
    return render(request, "ranking/records.html", context)


@require_safe
def problem_records(request: HttpRequest, slug: str) -> HttpResponse:
    """The record of one board over time, as a plot and as a table."""
    problem = get_problem(slug)
    entries = queries.boards_of(slug)
    choices = judging_profiles(problem)
    profile = chosen_profile(request, [each.name for each in choices], entries=entries, problem=slug, message=_NOT_HERE)
    found = queries.records_of(slug, profile=profile.name)
    line = [(each.reached_at, each.author.username, each.score, each.score_low, each.score_high) for each in found]
    context = {
        "problem": problem,
        "profile": profile,
        "choices": _with_entries(choices, entries),
        "records": list(reversed(found)),
        "own_name": request.user.get_username(),
        "figure": times.record_line(line, until=timezone.now()) if line and profile.measures_time else None,
    }
    return render(request, "ranking/problem_records.html", context)


@require_safe
def scaling(request: HttpRequest, slug: str) -> HttpResponse:
    """The leaders of one problem at 2, 4 and 8 ranks with the reference, machine by machine."""
    problem = get_problem(slug)
    found = leaders.families(problem)
    context = {
        "problem": problem,
        "machines": _machines_figure(found),
        "families": [(family, _family_rows(family), _family_figure(family)) for family in found],
    }
    return render(request, "ranking/scaling.html", context)


@require_safe
def open_board(request: HttpRequest) -> HttpResponse:
    """The unsolved problems, and those solved but not significantly faster than the reference."""
    wanted = _choice(request.GET, "profile", profiles.profiles())
    context = {
        "open": leaders.open_problems(profile=wanted or None),
        "profile": profiles.get(wanted) if wanted else None,
        "choices": _with_entries(profiles.profiles().values(), leaders.board_counts()),
        "total": len(registry.problems()),
    }
    return render(request, "ranking/open.html", context)


@require_safe
def guest(request: HttpRequest, slug: str) -> HttpResponse:
    """The boards of one owner of guests' nodes: whose machines judged, what that proves, what the site confirmed."""
    owner = guest_owner(slug)
    context = {"owner": owner, "nodes": owner.nodes.prefetch_related("slots"), "boards": guests.boards_of(owner)}
    return render(request, "ranking/guest.html", context)


@require_safe
def published_board(request: HttpRequest) -> HttpResponse:
    """What others have published about models on these problems, in the form in which they did."""
    figures = published.figures()
    k = "3" if request.GET.get("k") == "3" else "1"
    results, problems = figures["results"], figures["categories"]
    categories = _counted_here("category")
    agent, efforts = published.by_effort()
    rows = [
        (
            group,
            problems.of("", group)["problems"],
            categories.get(group),
            [
                (results.of(model, group)[f"pass@{k}"], results.of(model, group)[f"fast_1@{k}"])
                for model in results.models
            ],
        )
        for group in problems.groups
    ]
    context = {
        "figures": figures,
        "k": k,
        "models": results.models,
        "rows": rows,
        "contradictions": published.contradictions(),
        "measures": published.MEASURES,
        "totals": (totals := [(model, results.of(model, published.TOTAL)) for model in results.models]),
        "solved": published_charts.counts(
            [(model, (count[f"pass@{k}"], count[f"fast_1@{k}"])) for model, count in totals]
        ),
        "agent": agent,
        "efforts": efforts,
        "agentic": published_charts.counts(efforts),
        "total": published.PROBLEMS,
        "failure_rows": [
            (title, [figures["failures"].of(model)[title] for model in figures["failures"].models])
            for title in figures["failures"].measures
        ],
        "failures": published_charts.failures(figures["failures"]),
        "fast_p": published_charts.fast_p(figures["fast_p"]),
        "sweeps": [(workload, figure, published_charts.sweep(figure)) for workload, figure in published.sweeps()],
        "coverage": [
            (figures["parallelisms"], "parallelism", _counted_here("parallelism")),
            (figures["code_bases"], "source", _counted_here("source")),
        ],
        "headlines": [(group, figures["headlines"].of("", group)) for group in figures["headlines"].groups],
        "call": published_charts.one_call(figures["traced_call"]),
    }
    return render(request, "ranking/published.html", context)


def _counted_here(name: str) -> dict[str, tuple[str, int]]:
    """By the paper's name of a group: the value of our facet, and how many problems our rule puts there."""
    groups = grouped(registry.problems(), _GROUPINGS[name])
    return {_NAMED_THERE.get(label, label): (value, len(members)) for value, label, members in groups}


_NAMED_THERE = {"None": "Collective", "Vocabulary": "Vocab", "Spatial": "Geometric / Spatial"}
"""By our label the paper's, where they differ and mean the same."""


@require_safe
def published_data(request: HttpRequest, format: str) -> HttpResponse:  # noqa: A002, ARG001 - as the address says
    """Every published number with its source and date, as CSV or JSON Lines."""
    return as_download(published.TABLE, format=format, name="pkb-published")


@require_safe
def published_verdicts(request: HttpRequest) -> HttpResponse:
    """Programs that others have published: which are correct by their rule, and which by ours."""
    verdicts = published_programs.verdicts()
    context = {
        "verdicts": verdicts,
        "kinds": published_programs.KINDS,
        "programs": sum(len(one["programs"]) for one in verdicts["sets"]),
        "total": published.PROBLEMS,
    }
    return render(request, "ranking/published_programs.html", context)


def _cursors(request: HttpRequest) -> dict[str, Any]:
    """Which part of a long board is asked for."""
    return {name: request.GET.get(name, "") for name in ("after", "before")}


def _titles() -> dict[str, str]:
    return {problem.slug: problem.title for problem in registry.problems()}


def _chosen_size(request: HttpRequest, sizes: tuple[str, ...]) -> str | None:
    """The size to order by; None where the profile has one only, or all are wanted."""
    wanted = request.GET.get("size", "")
    if len(sizes) == 1 and wanted in ("tiny", "base", "large"):
        return None  # left in the form from another profile
    return _choice(request.GET, "size", sizes) or None


def _edges(rows: tuple[queries.BoardRow, ...]) -> tuple[float, float]:
    """The speedups at which the pictures of intervals begin and end."""
    return min([0.9, *(row.low for row in rows)]) * 0.97, max([1.1, *(row.high for row in rows)]) * 1.03


def _family_rows(family: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row per number of ranks and size: the leader's time, the reference's, and the speedup."""
    rows: list[dict[str, Any]] = []
    for profile, leader, reference in family["measured"]:
        if leader is not None:
            rows += [{"profile": profile, "leader": leader, "size": size} for size in leader.sizes or (None,)]
        else:
            rows += [{"profile": profile, "leader": None, "reference": size} for size in reference.sizes]
    return rows


def _family_figure(family: Mapping[str, Any]) -> Chart | None:
    """Times over ranks, a line per size for leader and reference; None where there is nothing to join."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for profile, leader, reference in family["measured"]:
        times = [(f"best, {size.size}", size.time_us) for size in (leader.sizes if leader else ())]
        times += [(f"reference, {size.size}", size.time_us) for size in reference.sizes]
        for name, us in times:
            lines.setdefault(name, []).append((profile.world_size, us))
    if not lines or len(family["measured"]) < 2:
        return None
    return runs.curves(lines, x=runs.RANKS, y=_TIME, is_wide=True)


def _machines_figure(families: Iterable[Mapping[str, Any]]) -> Chart | None:
    """Times at the largest size over ranks, all machines side by side; None where fewer than two were measured."""
    machines = []
    for family in (each for each in families if each["is_ranked_by_speed"]):
        references, best = [], []
        for profile, leader, reference in family["measured"]:
            largest, ranks = profile.sizes[Mode.RANKED][-1], profile.world_size
            references += [(ranks, at.time_us) for at in reference.sizes if at.size == largest]
            best += [
                (ranks, at.time_us, at.baseline_us / at.high, at.baseline_us / at.low)
                for at in (leader.sizes if leader else ())
                if at.size == largest and is_informative(at.low, at.high)
            ]
        machines.append((family["title"], references, best))
    shown = [machine for machine in machines if machine[1]][: len(runs.LOOKS)]
    return runs.over_ranks(shown, y=_TIME) if len(shown) > 1 else None
