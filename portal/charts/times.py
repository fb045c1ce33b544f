"""One axis of time per size: how far the reference, the best entry and each model's best are from the floor."""

import math
from collections.abc import Sequence

from portal.charts.chart import Axis, Chart, Point, Points, Scale, Unit
from portal.charts.scales import number

Marks = tuple[str, str, str, Sequence[tuple[int, float, str]]]
"""A kind's name, tone and symbol, and its marks: place of the size, microseconds, whose time it is.

In the first row a mark is labelled where whose it is says more than its kind.
"""

_ROW_PX = 46
_LEAST_SPAN = 3.0
"""The axis goes at least this many times below and above the middle of the times."""


def time_axis(sizes: Sequence[str], kinds: Sequence[Marks]) -> Chart:
    """Times of a call in microseconds on a logarithmic axis, a row per size, the first one on top."""
    layers = tuple(
        Points(
            name=name,
            tone=tone,
            symbol=symbol,
            size=5.5,
            points=tuple(
                Point(
                    x=us,
                    y=at,
                    tip=f"{whose}, {sizes[at]}\n{number(us)} µs",
                    label="" if at or whose.lower() == name else whose,
                )
                for at, us, whose in marks
            ),
        )
        for name, tone, symbol, marks in kinds
        if marks
    )
    times = [us for *_, marks in kinds for _, us, _ in marks]
    middle = math.sqrt(min(times) * max(times))
    # Of times that are alike a difference would fill the whole width.
    low, high = min(min(times) / 1.3, middle / _LEAST_SPAN), max(max(times) * 1.3, middle * _LEAST_SPAN)
    title = "Time of a call, less is better"
    x = Axis(title=title, scale=Scale.LOG, unit=Unit.MICROSECONDS, low=low, high=high)
    names = tuple((float(at), size) for at, size in enumerate(sizes))
    y = Axis(low=len(sizes) - 0.5, high=-0.5, names=names)
    return Chart(x=x, y=y, layers=layers, height=100 + _ROW_PX * len(sizes), is_wide=True)
