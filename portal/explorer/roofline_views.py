"""The roofline explorer and its data."""

from collections import Counter
from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluator.hardware import profiles
from evaluator.judging.floors import Bound
from portal.catalog import measurements, rooflines
from portal.catalog.hardware import last_choice, opening_profile
from portal.catalog.rooflines import Axis, Point
from portal.charts.chart import Chart
from portal.charts.drawing import svg
from portal.charts.rooflines import distribution
from portal.explorer import roofline_table
from portal.explorer.roofline_table import View
from portal.ranking.leaders import board_counts, leaders
from problems.spec.taxonomy import Block

PICTURE_PX = 1200


def _view(request: HttpRequest) -> tuple[View, dict[str, int]]:
    """The view that an address asks for, and how many boards each profile has."""
    boards = board_counts()
    names = [profile.name for profile in rooflines.gpu_profiles()]
    opening = opening_profile(names, entries=boards, last=last_choice(request, names))
    return View.from_query(request.GET, opening=opening), boards


def _points(view: View) -> list[Point]:
    best = {leader.problem: leader for leader in leaders(profile=view.profile).values()}
    return roofline_table.narrowed(rooflines.points(view.profile, best), view)


def _figure(view: View, chosen: list[Point]) -> Chart:
    window = roofline_table.parse_window(view.window)
    figure = rooflines.explorer_figure(chosen, profile=profiles.get(view.profile), axis=Axis(view.axis), window=window)
    # This page alone answers for a part of the plane.
    return replace(figure, can_zoom=True)


@require_safe
def roofline(request: HttpRequest) -> HttpResponse:
    """Every problem on one GPU profile under its ceilings, as a chart, a distribution and a table."""
    view, boards = _view(request)
    profile, axis = profiles.get(view.profile), Axis(view.axis)
    chosen = _points(view)
    public = measurements.public_references(view.profile)
    bars = rooflines.distribution_bars(chosen)
    reached = rooflines.reached(profile)
    curves = rooflines.collectives_figure(profile, reached) if reached else None
    context = {
        "view": view,
        "profile": profile,
        "profiles": [(choice.name, choice.title) for choice in rooflines.gpu_profiles()],
        "boards": boards,
        "sizes": [*rooflines.RANKED_SIZES, roofline_table.ALL_SIZES],
        "blocks": list(Block),
        "axes": [(axis.value, axis.label) for axis in Axis],
        "points": chosen,
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
        "collectives": curves or None,
        "public": public,
    }
    return render(request, "roofline/explorer.html", context)


def _bounds(chosen: list[Point]) -> list[tuple[Bound, int]]:
    """How many rows each ceiling bounds, also where it is none."""
    counts = Counter(point.work.floor.bound for point in chosen)
    return [(bound, counts[bound]) for bound in (Bound.WIRE, Bound.ARITHMETIC, Bound.MEMORY, Bound.LATENCY)]


def _below_half(chosen: list[Point]) -> tuple[int, int] | None:
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
    drawn = svg(_figure(view, _points(view)), width=PICTURE_PX, is_standalone=True)
    name = f'attachment; filename="pkb-roofline-{view.profile}.svg"'
    return HttpResponse(drawn, content_type="image/svg+xml", headers={"Content-Disposition": name})
