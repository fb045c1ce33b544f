"""How fast a machine's collectives are over message sizes, under what its links can do."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from portal.charts.chart import Axis, Chart, Layer, Line, Point, Scale, marked_line
from portal.charts.scales import number

_LOOKS = (("accent", "dot", "solid"), ("success", "square", "dash"), ("warning", "diamond", "dot"))
"""Tone, symbol and dash of each line: two lines differ in all three, so they never differ by colour alone."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One collective: (bytes of a message, bus bandwidth in bytes a second, microseconds), smallest message first."""

    name: str
    points: tuple[tuple[int, float, float], ...]


def bus_bandwidths(curves: Sequence[Curve], levels: Sequence[tuple[str, float]]) -> Chart:
    """Bus bandwidth over message size on logarithmic axes.

    Args:
        curves: the collectives.
        levels: what bounds them: a name and bytes a second, drawn across.
    """
    reach = [size for curve in curves for size, _, _ in curve.points]
    ends = (min(reach), max(reach))
    bounds = [
        Line(
            name=name,
            tone="text-muted",
            points=tuple(Point(x=end, y=rate) for end in ends),
            dash="dot" if place else "solid",
            label=name,
            at_end=not place,
        )
        for place, (name, rate) in enumerate(levels)
    ]
    lines: list[Layer] = []
    for curve, (tone, symbol, dash) in zip(curves, _LOOKS, strict=False):
        said = [
            Point(x=size, y=rate, tip=f"{curve.name}, {number(size)}B\n{number(rate)}B/s, {number(us)} µs")
            for size, rate, us in curve.points
        ]
        line, marks = marked_line(curve.name, said, tone=tone, symbol=symbol, dash=dash, legend="")
        lines += line, replace(marks, legend=None)
    x = Axis(title="Bytes of a message", scale=Scale.LOG)
    y = Axis(title="Bus bandwidth, bytes/s per GPU", scale=Scale.LOG)
    return Chart(x=x, y=y, layers=(*bounds, *lines), height=360)
