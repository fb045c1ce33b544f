"""Rooflines and the distribution of utilisation, drawn from plain numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from portal.charts.chart import Axis, Bar, Bars, Chart, Layer, Line, Point, Points, Scale, Unit


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """What limits the points: a level from `start` on, or with a `rate`, rate times x until the level is reached.

    Its name is written along it.
    """

    name: str
    level: float
    rate: float | None = None
    start: float = 0.0
    dash: str = "solid"

    def ends(self, left: float, right: float) -> tuple[Point, Point]:
        """Where the ceiling begins and ends between `left` and `right`."""
        if self.rate is None:
            return Point(x=max(left, self.start), y=self.level), Point(x=max(right, self.start), y=self.level)
        end = min(right, self.level / self.rate)
        begin = min(left, end)
        return Point(x=begin, y=self.rate * begin), Point(x=end, y=self.rate * end)


Window = tuple[float, float, float, float]
"""The part of the plane that is shown: left, right, bottom and top, as powers of ten."""


def roofline(
    series: Sequence[Points],
    ceilings: Sequence[Ceiling],
    *,
    titles: tuple[str, str],
    joins: Sequence[tuple[Point, Point]] = (),
    window: Window | None = None,
    height: int = 520,
) -> Chart:
    """Points under their ceilings on logarithmic axes.

    Without a window the axes hold all but the farthest points; those are drawn at the edge and point outwards.

    Args:
        series: points by kind; each opens its page when clicked.
        ceilings: drawn across the width of the points; those that begin beyond it are left out.
        titles: what the axes show.
        joins: pairs of points that belong together, joined by a line.
        window: the part to show.
        height: in pixels.
    """
    marks = [mark for kind in series for mark in kind.points]
    shown = window or _around(marks, ceilings)
    left, right, bottom, top = (10.0**end for end in shown)
    layers: list[Layer] = [
        Line(
            name=each.name,
            tone="text-muted",
            points=each.ends(left, right),
            dash=each.dash,
            label=each.name,
            width=1.4,
            at_end=each.rate is None,
            legend="",
        )
        for each in ceilings
        if each.start < right
    ]
    layers += [_join(pair) for pair in joins if all(_is_inside(mark, shown) for mark in pair)]
    layers += [kind for kind in series if kind.points]
    return Chart(
        x=Axis(title=titles[0], scale=Scale.LOG, low=left, high=right),
        y=Axis(title=titles[1], scale=Scale.LOG, low=bottom, high=top),
        layers=tuple(layers),
        height=height,
        is_wide=True,
    )


_OUTLIERS = 0.04
"""The share of the points at either end of the horizontal axis that may be drawn at its edge."""
_ROOM = 0.35
"""Decades around what an axis holds."""


def _around(marks: Sequence[Point], ceilings: Sequence[Ceiling]) -> Window:
    """The part of the plane that holds the points and the tops of their ceilings, without the farthest points."""
    if not marks:
        return -2.0, 4.0, 6.0, 15.0
    left, right = _spread([math.log10(mark.x) for mark in marks], share=_OUTLIERS)
    bottom, top = _spread([math.log10(mark.y) for mark in marks], share=_OUTLIERS / 2)
    top = max([top, *(math.log10(each.level) for each in ceilings)])
    knees = [math.log10(each.level / each.rate) for each in ceilings if each.rate]
    right = max([right, *(knee + 0.5 for knee in knees)])
    return left - _ROOM, right + _ROOM, bottom - _ROOM, top + _ROOM


def _spread(values: Sequence[float], *, share: float) -> tuple[float, float]:
    """The ends of `values` without `share` of them at either side, where these lie more than a decade further out."""
    ordered = sorted(values)
    left_out = int(len(ordered) * share)
    inner = ordered[left_out : len(ordered) - left_out]
    low = ordered[0] if inner[0] - ordered[0] <= 1 else inner[0]
    high = ordered[-1] if ordered[-1] - inner[-1] <= 1 else inner[-1]
    return low, high


def _is_inside(mark: Point, window: Window) -> bool:
    left, right, bottom, top = window
    return left <= math.log10(mark.x) <= right and bottom <= math.log10(mark.y) <= top


def _join(pair: tuple[Point, Point]) -> Line:
    points = tuple(Point(x=mark.x, y=mark.y) for mark in pair)
    return Line(name="reference to best", tone="text-faint", points=points, width=1, legend="")


Kind = tuple[str, str, str, Sequence[int]]
"""A kind of time: its name, tone and pattern, and how many problems fall into each bin."""


def distribution(kinds: Sequence[Kind], *, bins: Sequence[str]) -> Chart:
    """Number of problems per bin of utilisation, the kinds side by side."""
    width = 0.8 / max(1, len(kinds))
    layers = []
    for place, (kind, tone, pattern, counts) in enumerate(kinds):
        offset = (place - (len(kinds) - 1) / 2) * width
        bars = tuple(
            Bar(at=at, start=0.0, end=count, tip=f"{kind}, {name}: {count}", offset=offset, width=width)
            for at, (name, count) in enumerate(zip(bins, counts, strict=True))
            if count
        )
        layers.append(Bars(name=kind, tone=tone, pattern=pattern, bars=bars))
    names = tuple((float(place), name) for place, name in enumerate(bins))
    return Chart(
        x=Axis(title="Share of the roofline (floor / time)", scale=Scale.CATEGORY, names=names),
        y=Axis(title="Problems", low=0.0, unit=Unit.NUMBER),
        layers=tuple(layers),
        height=300,
    )
