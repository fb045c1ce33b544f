"""One axis of time per size: how far the reference, the best entry and each model's best are from the floor."""

import math
from collections.abc import Sequence

from portal.charts.chart import Axis, Chart, Point, Points, Scale, Unit
from portal.charts.scales import number

LOOKS = {
    "floor": ("text", "tick"),
    "best entry": ("success", "star"),
    "first correct entry": ("success", "star"),
    "best of a model": ("warning", "diamond"),
    "reference": ("accent", "ring"),
}
"""Tone and symbol of each kind of time."""

_ROW_PX = 46
_LEAST_SPAN = 3.0
"""The axis goes at least this many times below and above the middle of the times."""


def time_axis(sizes: Sequence[str], lines: Sequence[tuple[str, str, Sequence[float | None]]]) -> Chart:
    """Times of a call in microseconds on a logarithmic axis, a row per size, the first one on top.

    Args:
        sizes: the rows. In the first a mark is labelled where whose it is says more than its kind.
        lines: a key of `LOOKS`, whose times they are, and the times in the order of the sizes.
    """
    layers = []
    for kind, (tone, symbol) in LOOKS.items():
        points = tuple(
            Point(
                x=us,
                y=at,
                tip=f"{whose}, {sizes[at]}\n{number(us)} µs",
                label="" if at or whose.lower() == kind else whose,
            )
            for each, whose, known in lines
            for at, us in enumerate(known)
            if each == kind and us is not None
        )
        if points:
            layers.append(Points(name=kind, tone=tone, symbol=symbol, size=5.5, points=points))
    times = [point.x for layer in layers for point in layer.points]
    middle = math.sqrt(min(times) * max(times))
    # Of times that are alike a difference would fill the whole width.
    low, high = min(min(times) / 1.3, middle / _LEAST_SPAN), max(max(times) * 1.3, middle * _LEAST_SPAN)
    title = "Time of a call, less is better"
    x = Axis(title=title, scale=Scale.LOG, unit=Unit.MICROSECONDS, low=low, high=high)
    names = tuple((float(at), size) for at, size in enumerate(sizes))
    y = Axis(low=len(sizes) - 0.5, high=-0.5, names=names)
    return Chart(x=x, y=y, layers=tuple(layers), height=100 + _ROW_PX * len(sizes), is_wide=True)
