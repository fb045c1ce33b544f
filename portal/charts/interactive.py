"""The same charts as Plotly figures: `static/js/plots.js` draws them over the server's picture when one is touched.

A trace names its colour by role in `meta["tone"]`, so that one figure serves light and dark.

Figures are plain data in the form that plotly.js reads. Its Python package checks every property of a figure, which
takes longer than all the rest of a page: so tests check figures of every kind with it, and requests do not.
"""

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from portal.charts.chart import Axis, Band, Bars, Chart, Layer, Line, Point, Points, Scale, Unit, Whisker
from portal.charts.drawing import legend_text
from portal.charts.scales import ends

_SYMBOLS = {
    "dot": "circle",
    "ring": "circle-open",
    "diamond": "diamond",
    "diamond-ring": "diamond-open",
    "square": "square",
    "star": "star",
    "tick": "line-ns-open",
    "dash": "line-ew-open",
}
_TICKS: dict[Unit, dict[str, Any]] = {
    Unit.NUMBER: {"exponentformat": "SI extended"},
    Unit.SPEEDUP: {"tickformat": ".4~g", "ticksuffix": "×"},  # noqa: RUF001 - the multiplication sign is meant
    Unit.SHARE: {"tickformat": ".1~%"},
    Unit.MICROSECONDS: {"exponentformat": "none", "ticksuffix": " µs"},
}


Trace = dict[str, Any]


def figure_data(chart: Chart) -> dict[str, Any]:
    """The chart as plotly.js draws it, with the same axes, marks, legend and words: JSON-compatible data."""
    traces = [trace for layer in chart.layers for trace in _MAKERS[type(layer)](chart, layer)]
    layout = {
        "height": chart.height,
        "margin": {"l": 56, "r": 16, "t": 16, "b": 48},
        "xaxis": _axis(chart.x, can_zoom=chart.can_zoom),
        "yaxis": _axis(chart.y, can_zoom=chart.can_zoom),
        "showlegend": any(trace["showlegend"] for trace in traces),
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
        "barmode": "overlay",
    }
    return {"data": traces, "layout": layout}


def _axis(axis: Axis, *, can_zoom: bool) -> dict[str, Any]:
    is_log = axis.scale is Scale.LOG
    made: dict[str, Any] = {
        "title": {"text": axis.title},
        "type": {Scale.LOG: "log", Scale.TIME: "date"}.get(axis.scale, "linear"),
        "zeroline": False,
        "showgrid": axis.has_grid and axis.scale is not Scale.CATEGORY,
        "fixedrange": not can_zoom,
        **_TICKS[axis.unit],
    }
    if axis.names:
        made |= {"tickvals": [value for value, _ in axis.names], "ticktext": [name for _, name in axis.names]}
    if is_log and not axis.names:
        made["dtick"] = 1
    if axis.low is not None and axis.high is not None:
        made["range"] = [math.log10(end) if is_log else end for end in (axis.low, axis.high)]
    elif axis.scale is Scale.CATEGORY:
        made["range"] = list(ends(axis, ()))
    elif axis.low is not None:
        made["rangemode"] = "tozero"
    return made


def _value(axis: Axis, value: float) -> float | str:
    return datetime.fromtimestamp(value, UTC).isoformat() if axis.scale is Scale.TIME else value


def _look(layer: Layer) -> dict[str, Any]:
    """Name, place in the legend and tone of a layer."""
    said = legend_text(layer)
    return {"name": said or getattr(layer, "name", ""), "showlegend": bool(said), "meta": {"tone": layer.tone}}


def _said(points: tuple[Point, ...]) -> dict[str, Any]:
    if not any(point.tip for point in points):
        return {"hoverinfo": "skip"}
    return {
        "customdata": [[point.href, point.tip.replace("\n", "<br>")] for point in points],
        "hovertemplate": "%{customdata[1]}<extra></extra>",
    }


def _coordinates(chart: Chart, points: tuple[Point, ...]) -> dict[str, Any]:
    return {"x": [_value(chart.x, point.x) for point in points], "y": [_value(chart.y, point.y) for point in points]}


def _scatter(**properties: Any) -> Trace:
    return {"type": "scatter", **properties}


def _bar(**properties: Any) -> Trace:
    return {"type": "bar", **properties}


def _points(chart: Chart, layer: Points) -> Iterator[Trace]:
    labels: Trace = {}
    if any(point.label for point in layer.points):
        labels = {"text": [point.label for point in layer.points], "textposition": "middle right"}
    marker = {
        "size": 2 * layer.size,
        "symbol": _SYMBOLS[layer.symbol],
        "opacity": layer.opacity,
        "line": {"width": 1.5},
    }
    yield _scatter(
        **_coordinates(chart, layer.points),
        **_look(layer),
        **_said(layer.points),
        **labels,
        mode="markers+text" if labels else "markers",
        marker=marker,
    )


def _line(chart: Chart, layer: Line) -> Iterator[Trace]:
    line = {"dash": layer.dash, "width": layer.width, "shape": "hv" if layer.is_step else "linear"}
    label: dict[str, Any] = {}
    if layer.label:
        texts = [""] * len(layer.points)
        texts[-1 if layer.at_end else 0] = layer.label
        label = {"text": texts, "textposition": "top left" if layer.at_end else "bottom right"}
    mode = "lines+text" if layer.label else "lines"
    yield _scatter(
        **_coordinates(chart, layer.points), **_look(layer), **_said(layer.points), **label, mode=mode, line=line
    )


def _band(chart: Chart, layer: Band) -> Iterator[Trace]:
    left, right = ends(chart.x, ())
    yield _scatter(
        x=[left, right, right, left],
        y=[layer.low, layer.low, layer.high, layer.high],
        fill="toself",
        mode="none",
        opacity=0.35,
        hoverinfo="skip",
        **(_look(layer) | {"meta": {"tone": layer.tone, "fill": True}}),
    )


def _whisker(chart: Chart, layer: Whisker) -> Iterator[Trace]:
    places = [(layer.x, end) if layer.is_vertical else (end, layer.y) for end in (layer.low, layer.high)]
    points = tuple(Point(x=x, y=y) for x, y in places)
    line = {"width": 2}
    yield _scatter(**_coordinates(chart, points), **_look(layer), mode="lines", line=line, hoverinfo="skip")


def _bars(_chart: Chart, layer: Bars) -> Iterator[Trace]:
    lengths = [bar.end - bar.start for bar in layer.bars]
    middles = [bar.at + bar.offset for bar in layer.bars]
    along, across = ("x", "y") if layer.is_lying else ("y", "x")
    yield _bar(
        **{along: lengths, across: middles},
        **_look(layer),
        base=[bar.start for bar in layer.bars],
        width=[bar.width for bar in layer.bars],
        orientation="h" if layer.is_lying else "v",
        marker={"pattern": {"shape": layer.pattern, "fillmode": "replace"}, "line": {"width": 1}},
        customdata=[["", bar.tip] for bar in layer.bars],
        hovertemplate="%{customdata[1]}<extra></extra>",
    )


_MAKERS: dict[type, Callable[..., Iterator[Trace]]] = {
    Points: _points,
    Line: _line,
    Band: _band,
    Whisker: _whisker,
    Bars: _bars,
}
