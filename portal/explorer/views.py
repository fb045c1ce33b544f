"""The pages of the problems: the list, each problem's own, the roofline explorer and the taxonomy browser."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from evaluator.contract import Primitive, is_informative
from evaluator.hardware import profiles
from evaluator.judging.floors import Bound
from portal.accounts.models import User
from portal.catalog import facets, highlighting, measurements, queries, rooflines
from portal.charts import drawing, times
from portal.charts.chart import Chart
from portal.charts.rooflines import distribution
from portal.core.errors import choice
from portal.explorer import roofline_table, taxonomy
from portal.explorer.queries import SORTS, problem_rows, problem_times
from portal.nodes.queries import online_profiles
from portal.ranking import queries as ranking
from portal.ranking.leaders import best_leaders, board_counts, leaders, profiles_by_speed
from portal.runs.page_data import ModelResult, solved_by_models
from portal.submissions.queries import own_submissions
from portal.submissions.reports import over_size
from problems import registry
from problems.spec.schema import Problem
from problems.spec.taxonomy import Block, Communication

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
    profile = queries.chosen_profile(request, profiles.profiles(), entries=counts, message=message)
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
        "facets": _facets(tuple(chosen.items()), search=search),
        "search": search,
        "is_narrowed": bool(search) or any(chosen.values()),
    }
    return render(request, "problems/list.html", context)


@lru_cache(maxsize=64)
def _facets(chosen: tuple[tuple[str, str], ...], *, search: str) -> SafeString:
    """The fields of the facets with their counts, which depend on the problems alone."""
    every, narrowed = registry.problems(), dict(chosen)
    found = [(facet, facets.options(every, facet, chosen=narrowed, search=search)) for facet in facets.FACETS]
    return SafeString(render_to_string("problems/_facets.html", {"facets": found}).strip())


@require_safe
def problem_page(request: HttpRequest, slug: str) -> HttpResponse:
    """All that there is of a problem, on one profile: times, the reader's attempts, statement, roofline and board.

    Raises:
        Refusal: there is no such problem, or a profile is asked for that does not judge it (404).
    """
    problem = queries.get_problem(slug)
    judging = queries.judging_profiles(problem)
    names, boards = [profile.name for profile in judging], ranking.boards_of(slug)
    message = "The {field} {value} does not judge this problem."
    profile = queries.chosen_profile(request, names, entries=boards, problem=slug, message=message)
    board = ranking.board(slug, profile=profile.name, limit=ROOFLINE_ENTRIES) if profile.name in boards else ()
    context = {
        "problem": problem,
        "switch": queries.switch(slug),
        "statement": registry.statement(slug),
        "revision": registry.revision(slug),
        **_published(slug),
        "reference": highlighting.reference_rows(slug),
        "hops": [(hop, facets.pattern(hop.pattern)) for hop in problem.hops],
        "rank_rows": facets.rank_rows(),
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


def _own_attempts(request: HttpRequest, slug: str, profile: profiles.Profile) -> dict[str, Any]:
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
    curve = times.attempts_line(scores) if len(scores) > 1 and profile.measures_time else None
    return {"own": own[:OWN_SHOWN], "own_count": len(own), "own_curve": curve, "online": online_profiles()}


@require_safe
def reference_file(_request: HttpRequest, slug: str) -> HttpResponse:
    text = registry.reference_source(queries.get_problem(slug).slug)
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
    table = measurements.published_against_ours()
    if table is None or slug not in table.ratios:
        return {}
    scores = [each["score"] for each in table.ratios.values()]
    return {
        "published": table,
        "published_ratio": table.ratios[slug],
        "published_range": (min(scores), max(scores)),
    }


def _roofline(
    problem: Problem, boards: Mapping[str, int], *, shown: profiles.Profile, board: Sequence[ranking.BoardRow]
) -> dict[str, Any]:
    """The problem under the ceilings of the profile that the page shows, or of another where that one has none.

    `boards` are the profiles with entries, `board` the first entries on `shown`.
    """
    names = [profile.name for profile in queries.judging_profiles(problem) if profile.peaks is not None]
    if not names:
        return {}
    last = shown.name if shown.name in names else ""
    name = queries.opening_profile(names, entries=boards, problem=problem.slug, last=last)
    entries = board if name == shown.name else ranking.board(problem.slug, profile=name, limit=ROOFLINE_ENTRIES)
    chosen = rooflines.points_of(problem, profile=name, best=entries[0] if entries else None)
    return {
        "roofline_profile": profiles.get(name),
        "roofline_points": chosen,
        "roofline_figure": rooflines.problem_figure(chosen, entries, profile=profiles.get(name)),
        "public": measurements.public_references(name),
    }


def _what_there_is(profile: str, boards: Mapping[str, int]) -> str:
    """What there is to see on `profile`; empty where there are only ceilings and floors."""
    if profile in boards:
        return "entries"
    return "reference" if measurements.baselines(profile) is not None else ""


def _sizes(problem: Problem) -> list[queries.SizeRow]:
    """The sizes at eight ranks, or at the largest world size of a profile that the problem allows."""
    candidates = [TABLE_WORLD_SIZE, *sorted({p.world_size for p in queries.judging_profiles(problem)}, reverse=True)]
    return next(filter(None, (queries.size_rows(problem, world_size=each) for each in candidates)), [])


_FEW = ("stage",)
"""The facets of a few values, which are rows of links; the others are lists."""
_BY_CHIPS = ("quantity", "profile", *_FEW)
"""What the rows of links choose, which the lists leave as it is."""


@require_safe
def browser(request: HttpRequest) -> HttpResponse:
    """Block by parallelism, narrowed by the other facets; a transformer's layers; the patterns of communication."""
    quantity = taxonomy.Quantity(choice(request.GET, "quantity", taxonomy.Quantity, opening=taxonomy.Quantity.COUNT))
    profile = choice(request.GET, "profile", profiles.profiles())
    primitive = choice(request.GET, "primitive", Primitive)
    layer = taxonomy.Layer(choice(request.GET, "layer", taxonomy.Layer, opening=taxonomy.Layer.DENSE))
    chosen = {facet.name: request.GET.get(facet.name, "") for facet in taxonomy.FACETS_BESIDE}
    every = registry.problems()
    left = facets.find(every, chosen=chosen)
    leading = _leaders_of(profile, primitive=primitive)
    counts = board_counts()
    by_models = solved_by_models()
    few, lists = _facets_beside(tuple(chosen.items()))
    context = {
        "table": _table(tuple(chosen.items()), quantity, tuple(leading.items())),
        "count": len(left),
        "total": len(every),
        "few": few,
        "facets": lists,
        "by_models": by_models,
        "kept": [(name, value) for name, value in request.GET.items() if value and name in _BY_CHIPS],
        "is_narrowed": any(chosen.values()) or bool(profile or primitive) or quantity is not taxonomy.Quantity.COUNT,
        "quantity": quantity,
        "quantities": taxonomy.LABELS.items(),
        "shades": enumerate(taxonomy.SHADE_LABELS[quantity], start=1),
        "profile": profiles.get(profile) if profile else None,
        "profiles": [(each, counts.get(each.name, 0)) for each in profiles_by_speed()],
        "primitive": primitive,
        "primitives": list(Primitive),
        "layer": layer,
        "layers": taxonomy.LAYER_LABELS.items(),
        "drawing": _drawing(layer),
        "edges": _edges(layer, profile, leading, solved_by_models(profile=profile) if profile else by_models),
        "others": taxonomy.other_blocks(every),
        "patterns": _patterns(),
    }
    return render(request, "taxonomy/browser.html", context)


Leading = Mapping[str, tuple[ranking.BoardRow, ...]]
"""The leaders of the boards that a page speaks of, by problem."""
Choices = tuple[tuple[str, str], ...]


@lru_cache(maxsize=64)
def _facets_beside(chosen: Choices) -> tuple[list[tuple[facets.Facet, Choices, str]], SafeString]:
    """What narrows the matrix, rows of links and the lists, with counts, which depend on the problems alone."""
    every, narrowed = registry.problems(), dict(chosen)
    options = [(facet, facets.options(every, facet, chosen=narrowed)) for facet in taxonomy.FACETS_BESIDE]
    few = [
        (facet, tuple((each["value"], f"{each['label']} ({each['count']})") for each in offered), narrowed[facet.name])
        for facet, offered in options
        if facet.name in _FEW
    ]
    lists = {"facets": [pair for pair in options if pair[0].name not in _FEW]}
    return few, render_to_string("problems/_facets.html", lists)


@lru_cache(maxsize=64)
def _table(
    chosen: Choices, quantity: taxonomy.Quantity, leading: tuple[tuple[str, tuple[ranking.BoardRow, ...]], ...]
) -> SafeString:
    """The matrix as HTML, made once for equal leaders: nothing else changes it while the process lives."""
    left = facets.find(registry.problems(), chosen=dict(chosen))
    shown = taxonomy.Shown(problems=left, leaders=dict(leading), quantity=quantity, chosen=dict(chosen))
    matrix = taxonomy.matrix(shown)
    return render_to_string("taxonomy/_matrix.html", dict(zip(("columns", "groups", "totals"), matrix, strict=True)))


@cache
def _drawing(layer: taxonomy.Layer) -> SafeString:
    """The lanes of a layer: the same for every reader while the process lives."""
    every = registry.problems()
    found = {name: (edge, len(edge.problems(every))) for name, edge in taxonomy.edges(layer).items()}
    return render_to_string("taxonomy/_layer.html", {"lanes": taxonomy.lanes(layer), "edges": found})


def _edges(layer: taxonomy.Layer, profile: str, leading: Leading, solving: Mapping[str, ModelResult]) -> SafeString:
    """Every edge of the drawing with its problems, who leads each of them, and which models solve it."""
    leaders_of = tuple((slug, rows[0]) for slug, rows in leading.items())
    models_of = tuple(
        (slug, tuple((model.slug, str(model)) for model in result.models)) for slug, result in solving.items()
    )
    return _edges_table(layer, profile, leaders_of, models_of)


@lru_cache(maxsize=64)
def _edges_table(
    layer: taxonomy.Layer,
    profile: str,
    leaders_of: tuple[tuple[str, ranking.BoardRow], ...],
    models_of: tuple[tuple[str, Choices], ...],
) -> SafeString:
    """The table of the edges as HTML, made once for equal leaders and models: it says nothing else that changes."""
    every, led, solved = registry.problems(), dict(leaders_of), dict(models_of)
    rows = [
        (name, edge, [(each, led.get(each.slug), solved.get(each.slug, ())) for each in edge.problems(every)])
        for name, edge in taxonomy.edges(layer).items()
    ]
    context = {"edges": rows, "profile": profiles.get(profile) if profile else None}
    return render_to_string("taxonomy/_edges.html", context)


@cache
def _patterns() -> SafeString:
    """The patterns of communication: the same for every reader while the process lives."""
    every = registry.problems()
    context = {
        "patterns": [
            (facets.pattern(value), sum(value in problem.communication for problem in every)) for value in Communication
        ],
        "rank_rows": facets.rank_rows(),
    }
    return render_to_string("taxonomy/_patterns.html", context)


def _leaders_of(profile: str, *, primitive: str) -> Leading:
    """The leaders of the boards on `profile` that use `primitive`, any where either is empty, by problem.

    Where no primitive is asked for, the best board of a problem speaks for all of them.
    """
    if not primitive:
        return {slug: (leader,) for slug, leader in best_leaders(profile=profile or None).items()}
    found: dict[str, tuple[ranking.BoardRow, ...]] = {}
    for leader in leaders(profile=profile or None).values():
        if primitive in leader.primitives:
            found[leader.problem] = (*found.get(leader.problem, ()), leader)
    return found


PICTURE_PX = 1200


def _view(request: HttpRequest) -> tuple[roofline_table.View, dict[str, int]]:
    """The view that an address asks for, and how many boards each profile has."""
    boards = board_counts()
    names = [profile.name for profile in rooflines.gpu_profiles()]
    opening = queries.opening_profile(names, entries=boards, last=queries.last_choice(request, names))
    return roofline_table.View.from_query(request.GET, opening=opening), boards


def _points(view: roofline_table.View) -> list[rooflines.Point]:
    best = {leader.problem: leader for leader in leaders(profile=view.profile).values()}
    return roofline_table.narrowed(rooflines.points(view.profile, best), view)


def _figure(view: roofline_table.View, chosen: list[rooflines.Point]) -> Chart:
    window = roofline_table.parse_window(view.window)
    figure = rooflines.explorer_figure(
        chosen, profile=profiles.get(view.profile), axis=rooflines.Axis(view.axis), window=window
    )
    # This page alone answers for a part of the plane.
    return replace(figure, can_zoom=True)


@require_safe
def roofline(request: HttpRequest) -> HttpResponse:
    """Every problem on one GPU profile under its ceilings, as a chart, a distribution and a table."""
    view, boards = _view(request)
    profile, axis = profiles.get(view.profile), rooflines.Axis(view.axis)
    chosen = _points(view)
    public = measurements.public_references(view.profile)
    bars = rooflines.distribution_bars(chosen)
    reached = rooflines.reached(profile)
    context = {
        "view": view,
        "profile": profile,
        "profiles": [(choice.name, choice.title) for choice in rooflines.gpu_profiles()],
        "boards": boards,
        "sizes": [*rooflines.RANKED_SIZES, roofline_table.ALL_SIZES],
        "blocks": list(Block),
        "axes": [(axis.value, axis.label) for axis in rooflines.Axis],
        "points": chosen,
        "rows": roofline_table.table_rows(chosen, profile=view.profile, has_public=public is not None),
        "columns": [each for each in roofline_table.COLUMNS if public is not None or each.name != "public"],
        "kept": [pair for pair in request.GET.items() if pair[0] not in ("block", "window")],
        "unplaced": sum(point.work.x(axis) <= 0 for point in chosen),
        "figure": _figure(view, chosen),
        "bars": bars,
        "bins": [(name, [counts[place] for *_, counts in bars]) for place, name in enumerate(rooflines.BINS)],
        "distribution": distribution(bars, bins=rooflines.BINS) if bars else None,
        "below_half": _below_half(chosen),
        "bounds": _bounds(chosen),
        "baselines": measurements.baselines(view.profile),
        "reached": reached,
        "collectives": rooflines.collectives_figure(profile, reached) if reached else None,
        "public": public,
    }
    return render(request, "roofline/explorer.html", context)


def _bounds(chosen: list[rooflines.Point]) -> list[tuple[Bound, int]]:
    """How many rows each ceiling bounds, also where it is none."""
    counts = Counter(point.work.floor.bound for point in chosen)
    return [(bound, counts[bound]) for bound in (Bound.WIRE, Bound.ARITHMETIC, Bound.MEMORY, Bound.LATENCY)]


def _below_half(chosen: list[rooflines.Point]) -> tuple[int, int] | None:
    """How many references reach less than half of their roofline, of how many that were timed; None without any."""
    known = [share for point in chosen if (share := point.shares["reference"]) is not None]
    return (sum(share < rooflines.HALF for share in known), len(known)) if known else None


@require_safe
def roofline_csv(request: HttpRequest) -> HttpResponse:
    """The explorer's rows as CSV, narrowed and ordered as on the page."""
    view, _ = _view(request)
    text = roofline_table.csv_text(_points(view), profile=view.profile)
    headers = {"Content-Disposition": f'attachment; filename="pkb-roofline-{view.profile}.csv"'}
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)


@require_safe
def roofline_picture(request: HttpRequest) -> HttpResponse:
    """The explorer's chart as an SVG file, with the window that is shown."""
    view, _ = _view(request)
    drawn = drawing.svg(_figure(view, _points(view)), width=PICTURE_PX, is_standalone=True)
    name = f'attachment; filename="pkb-roofline-{view.profile}.svg"'
    return HttpResponse(drawn, content_type="image/svg+xml", headers={"Content-Disposition": name})
