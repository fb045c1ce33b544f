"""Rooflines and the distribution of utilisation, drawn from plain numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from portal.charts.figures import base_layout


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One point: where it stands, what it is called, the sentence under its name, and the page that it opens."""

    x: float
    y: float
    name: str
    detail: str
    href: str = ""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one kind; `tone` names a colour of the site, `symbol` tells the kind without colour."""

    name: str
    tone: str
    symbol: str
    marks: tuple[Mark, ...]
    is_hidden: bool = False


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """What limits the points: a level from `start` on, or with a `rate`, rate times x until the level is reached."""

    name: str
    level: float
    rate: float | None = None
    start: float = 0.0
    dash: str = "solid"

    def line(self, left: float, right: float) -> tuple[list[float], list[float]]:
        """The ceiling's ends between `left` and `right`."""
        if self.rate is None:
            return [max(left, self.start), max(right, self.start)], [self.level, self.level]
        end = min(right, self.level / self.rate)
        begin = min(left, end)
        return [begin, end], [self.rate * begin, self.rate * end]


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Titles and units of a roofline's two logarithmic axes."""

    x_title: str
    y_title: str


@dataclass(frozen=True, kw_only=True)
class Window:
    """The part of the plane that is shown, as powers of ten."""

    left: float
    right: float
    bottom: float
    top: float


def roofline(
    series: Sequence[Series],
    ceilings: Sequence[Ceiling],
    *,
    axes: Axes,
    joins: Sequence[tuple[Mark, Mark]] = (),
    window: Window | None = None,
    height: int = 520,
) -> go.Figure:
    """Points under their ceilings on logarithmic axes.

    Args:
        series: points by kind; each opens its page when clicked.
        ceilings: drawn across the width of the points; those that begin beyond it are left out.
        axes: titles.
        joins: pairs of points that belong together, joined by a line.
        window: the part to show; everything where None.
        height: in pixels.
    """
    marks = [mark for kind in series for mark in kind.marks]
    left = min((mark.x for mark in marks), default=1.0) / 3
    right = max((mark.x for mark in marks), default=1e4) * 3
    traces = [_ceiling(ceiling, left, right) for ceiling in ceilings if ceiling.start < right]
    if joins:
        traces.append(_joins(joins))
    traces += [_series(kind) for kind in series if kind.marks]
    figure = go.Figure(data=traces, layout=base_layout(x_title=axes.x_title, y_title=axes.y_title, height=height))
    figure.update_layout(margin={"b": 64, "r": 24})
    # Bold, raised and the like would make plotly.js write style attributes, which the site's policy refuses.
    figure.update_xaxes(type="log", exponentformat="SI extended")
    figure.update_yaxes(type="log", exponentformat="SI extended")
    if window is not None:
        figure.update_xaxes(range=[window.left, window.right])
        figure.update_yaxes(range=[window.bottom, window.top])
    return figure


def _ceiling(ceiling: Ceiling, left: float, right: float) -> go.Scatter:
    xs, ys = ceiling.line(left, right)
    return go.Scatter(
        x=xs,
        y=ys,
        mode="lines",
        name=ceiling.name,
        line={"dash": ceiling.dash, "width": 1.8},
        hoverinfo="name",
        hoverlabel={"namelength": -1},
        meta={"tone": "text-muted"},
    )


def _joins(joins: Sequence[tuple[Mark, Mark]]) -> go.Scatter:
    xs = [x for first, second in joins for x in (first.x, second.x, None)]
    ys = [y for first, second in joins for y in (first.y, second.y, None)]
    return go.Scatter(
        x=xs,
        y=ys,
        mode="lines",
        name="reference to best",
        line={"width": 1},
        hoverinfo="skip",
        showlegend=False,
        meta={"tone": "text-faint"},
    )


def _series(kind: Series) -> go.Scatter:
    return go.Scatter(
        x=[mark.x for mark in kind.marks],
        y=[mark.y for mark in kind.marks],
        mode="markers",
        name=kind.name,
        marker={"size": 16 if kind.symbol.startswith("line") else 9, "symbol": kind.symbol, "line": {"width": 1.5}},
        text=[mark.name for mark in kind.marks],
        customdata=[[mark.href, mark.detail] for mark in kind.marks],
        hovertemplate="%{text}<br>%{customdata[1]}<extra></extra>",
        visible="legendonly" if kind.is_hidden else True,
        meta={"tone": kind.tone},
    )


@dataclass(frozen=True, kw_only=True)
class Bars:
    """How many problems of one kind of time fall into each bin; `pattern` tells the kind without colour."""

    name: str
    tone: str
    pattern: str
    counts: tuple[int, ...]


def distribution(bars: Sequence[Bars], *, bins: Sequence[str]) -> go.Figure:
    """Number of problems per bin of utilisation, the kinds side by side."""
    traces = [
        go.Bar(
            x=list(bins),
            y=list(kind.counts),
            name=kind.name,
            marker={"pattern": {"shape": kind.pattern, "fillmode": "replace"}, "line": {"width": 1}},
            hovertemplate="%{x}: %{y}<extra></extra>",
            meta={"tone": kind.tone},
        )
        for kind in bars
    ]
    layout = base_layout(x_title="Share of the roofline (floor / time)", y_title="Problems", height=300)
    figure = go.Figure(data=traces, layout=layout)
    figure.update_layout(barmode="group", dragmode=False)
    figure.update_xaxes(type="category", fixedrange=True)
    figure.update_yaxes(rangemode="tozero", fixedrange=True)
    return figure
