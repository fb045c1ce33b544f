"""The same charts as Plotly's figures: a page fetches one when a reader touches its picture; readers may keep it.

A figure has the marks, and what they say and open. It lies over the server's picture, in whose frame it fits, so that
words have their places from there. A trace names its colour by role in `meta["tone"]`, for light and dark, and in
`meta["series"]` the text of the legend with which readers hide it.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from portal.charts.chart import Band, Bars, Chart, Layer, Line, Point, Points, Ruler, Scale, Whisker
from portal.charts.drawing import Page, edge_of, laid_out, light_colours, series, svg, wide_px

VENDOR = Path(__file__).resolve().parents[2] / "static" / "vendor"
ASK = "figure"
"""The parameter of a page's address that asks for one of its charts as Plotly's figure, by name."""
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
Trace = dict[str, Any]


@dataclass
class FigureAsked(Exception):
    """A request asks for `chart` alone, described by `label`, and not for the page that shows it."""

    chart: Chart
    label: str


def digest(chart: Chart) -> str:
    """What names this chart as it is: another number or word, or another way to draw it, makes another digest."""
    return hashlib.sha256(f"{drawn_by()} {chart!r}".encode()).hexdigest()[:16]


@cache
def drawn_by() -> str:
    """The digest of the code that draws charts, and the version of Plotly's package."""
    code = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return hashlib.sha256(code).hexdigest() + version("plotly")


def figure(chart: Chart) -> Any:
    """The chart's marks as `plotly.graph_objects.Figure`, in the frame of the wide picture.

    Raises:
        ValueError: Plotly knows no such property or value: a layer is wrong.
    """
    # Plotly's package takes 24 MiB: who never touches a chart does not pay for it.
    from plotly import graph_objects  # noqa: PLC0415

    page = laid_out(chart, width=wide_px(chart))
    frame = {"l": page.x.start, "t": page.y.end, "r": page.width - page.x.end, "b": page.height - page.y.start}
    layout = {
        "template": "none",
        "width": page.width,
        "height": page.height,
        "margin": {**frame, "pad": 0},
        "xaxis": _axis(page.x, can_zoom=chart.can_zoom),
        "yaxis": _axis(page.y, can_zoom=chart.can_zoom),
        "showlegend": False,
        "hovermode": "closest",
        "barmode": "overlay",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }
    traces = [_MAKERS[type(layer)](page, layer) for layer in chart.layers]
    for trace, name in zip(traces, series(chart), strict=True):
        trace["meta"]["series"] = name
    return graph_objects.Figure({"data": traces, "layout": layout})


@lru_cache(maxsize=128)
def figure_json(chart: Chart) -> str:
    """The figure as plotly.js reads it; a chart is a value, so that an equal one is not made again."""
    return str(figure(chart).to_json())


def figure_file(chart: Chart, label: str) -> str:
    """A page that needs no other file: the server's picture and Plotly's marks over it, in the light colours."""
    made, colours = figure(chart), light_colours()
    for trace in made.data:
        tone = colours[trace.meta["tone"]]
        trace.update({part: {"color": tone} for part in ("marker", "line") if part in trace})
        if trace.type == "scatter" and trace.fill:
            trace.fillcolor = tone
    marks = made.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False})
    still = svg(chart, width=wide_px(chart), label=label, is_standalone=True)
    look = "figure{position:relative;width:fit-content;margin:1rem auto}figure>div{position:absolute;inset:0}"
    library = (VENDOR / "plotly.js").read_text(encoding="utf-8")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(label)}</title>'
        f"<style>{look}.plot-marks{{display:none}}</style>"
        f"<script>{library}</script><figure>{still}{marks}</figure></html>"
    )


def _axis(ruler: Ruler, *, can_zoom: bool) -> Trace:
    """An axis without words; times stay seconds, for nothing says them."""
    is_log = ruler.axis.scale is Scale.LOG
    ends = [math.log10(end) if is_log else end for end in (ruler.low, ruler.high)]
    bare = {"showgrid": False, "showticklabels": False, "zeroline": False}
    return {"type": "log" if is_log else "linear", "range": ends, "fixedrange": not can_zoom, **bare}


def _scatter(layer: Layer, points: tuple[Point, ...], **properties: Any) -> Trace:
    """A trace through `points`, those beyond an end of an axis at the edge, with what they say and open."""
    said: Trace = {"hoverinfo": "skip"}
    if any(point.tip for point in points):
        said = {
            "customdata": [[point.href, point.tip.replace("\n", "<br>")] for point in points],
            "hovertemplate": "%{customdata[1]}<extra></extra>",
        }
    return {
        "type": "scatter",
        "name": getattr(layer, "name", ""),
        "meta": {"tone": layer.tone},
        "x": [point.x for point in points],
        "y": [point.y for point in points],
        **said,
        **properties,
    }


def _points(page: Page, layer: Points) -> Trace:
    symbol = _SYMBOLS[layer.symbol]
    edges = [edge_of(page, point) for point in layer.points]
    outside = "triangle-{}-open" if symbol.endswith("-open") else "triangle-{}"
    marker = {
        "size": 2 * layer.size,
        "symbol": [outside.format(edge) if edge else symbol for edge in edges],
        "opacity": 0.5 if layer.is_cloud else 1,
        "line": {"width": 0 if layer.is_cloud else 1.5},
    }
    places = tuple(replace(point, x=page.x.nearest(point.x), y=page.y.nearest(point.y)) for point in layer.points)
    return _scatter(layer, places, mode="markers", marker=marker, cliponaxis=False)


def _line(_page: Page, layer: Line) -> Trace:
    line = {"dash": layer.dash, "width": layer.width, "shape": "hv" if layer.is_step else "linear"}
    return _scatter(layer, layer.points, mode="lines", line=line)


def _band(page: Page, layer: Band) -> Trace:
    ends, levels = (page.x.low, page.x.high), (layer.low, layer.high)
    corners = tuple(Point(x=ends[x], y=levels[y]) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1)))
    return _scatter(layer, corners, mode="none", fill="toself", opacity=0.16)


def _whisker(_page: Page, layer: Whisker) -> Trace:
    both = (layer.low, layer.high)
    ends = tuple(Point(x=layer.x, y=end) if layer.is_vertical else Point(x=end, y=layer.y) for end in both)
    caps = {"symbol": "line-ew-open" if layer.is_vertical else "line-ns-open", "size": 8, "line": {"width": 1.8}}
    return _scatter(layer, ends, mode="lines+markers", line={"width": 1.8}, marker=caps)


def _bars(_page: Page, layer: Bars) -> Trace:
    along, across = ("x", "y") if layer.is_lying else ("y", "x")
    return {
        "type": "bar",
        "name": layer.name,
        "meta": {"tone": layer.tone},
        along: [bar.end - bar.start for bar in layer.bars],
        across: [bar.at + bar.offset for bar in layer.bars],
        "base": [bar.start for bar in layer.bars],
        "width": [bar.width for bar in layer.bars],
        "orientation": "h" if layer.is_lying else "v",
        "marker": {"pattern": {"shape": layer.pattern, "fillmode": "replace"}, "line": {"width": 1}},
        "customdata": [["", bar.tip] for bar in layer.bars],
        "hovertemplate": "%{customdata[1]}<extra></extra>",
    }


_MAKERS: dict[type, Callable[..., Trace]] = {Points: _points, Line: _line, Band: _band, Whisker: _whisker, Bars: _bars}
