"""The roofline explorer and its data."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluator.hardware import profiles
from portal.catalog import measurements, rooflines
from portal.catalog.rooflines import Axis, Point
from portal.charts.figures import figure_data
from portal.charts.rooflines import distribution
from portal.explorer import roofline_table
from portal.explorer.roofline_table import View
from portal.ranking.leaders import leaders
from problems.taxonomy import Block


def _points(view: View) -> list[Point]:
    best = {leader.problem: leader for leader in leaders(profile=view.profile).values()}
    return roofline_table.narrowed(rooflines.points(view.profile, best), view)


@require_safe
def roofline(request: HttpRequest) -> HttpResponse:
    """Every problem on one GPU profile under its ceilings, as a chart, a distribution and a table."""
    view = View.from_query(request.GET)
    profile, axis, window = profiles.get(view.profile), Axis(view.axis), roofline_table.parse_window(view.window)
    chosen = _points(view)
    bars = rooflines.distribution_bars(chosen)
    figure = rooflines.explorer_figure(chosen, profile=profile, axis=axis, window=window)
    reached = rooflines.reached(profile)
    curves = rooflines.collectives_figure(profile, reached) if reached else None
    context = {
        "view": view,
        "profile": profile,
        "profiles": rooflines.gpu_profiles(),
        "sizes": [*rooflines.RANKED_SIZES, roofline_table.ALL_SIZES],
        "blocks": list(Block),
        "axes": list(Axis),
        "points": chosen,
        "columns": [(column, view.sort_query(column)) for column in roofline_table.COLUMNS],
        "unplaced": sum(point.work.x(axis) <= 0 for point in chosen),
        "figure": figure_data(figure),
        "bars": bars,
        "bins": [(name, [kind.counts[place] for kind in bars]) for place, name in enumerate(rooflines.BINS)],
        "distribution": figure_data(distribution(bars, bins=rooflines.BINS)) if bars else None,
        "baselines": measurements.baselines(view.profile),
        "reached": reached,
        "collectives": figure_data(curves) if curves else None,
        "public": measurements.public_references(view.profile),
        "query": view.query(),
    }
    return render(request, "roofline/explorer.html", context)


@require_safe
def roofline_csv(request: HttpRequest) -> HttpResponse:
    """The explorer's rows as CSV, narrowed and ordered as on the page."""
    view = View.from_query(request.GET)
    text = roofline_table.csv_text(_points(view), profile=view.profile)
    headers = {"Content-Disposition": f'attachment; filename="pkb-roofline-{view.profile}.csv"'}
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)
