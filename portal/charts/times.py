"""Times and speedups side by side: one row per size, series over size, and over the days or attempts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate

from portal.charts.chart import (
    Axis,
    Chart,
    Layer,
    Line,
    Point,
    Points,
    Scale,
    Unit,
    Whisker,
    level,
    marked_line,
    number,
)
from portal.core.speedups import factor

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
    x = Axis(title="Time of a call, less is better", scale=Scale.LOG, unit=Unit.MICROSECONDS, low=low, high=high)
    y = Axis(low=len(sizes) - 0.5, high=-0.5, names=tuple((float(at), size) for at, size in enumerate(sizes)))
    return Chart(x=x, y=y, layers=tuple(layers), height=100 + _ROW_PX * len(sizes), is_wide=True)


def record_line(records: Sequence[tuple[datetime, str, float, float, float]], *, until: datetime) -> Chart:
    """The record's speedup over time as steps, each with its interval.

    Args:
        records: time, author, score, low and high of every record, the first one first.
        until: where the line ends: the last record holds until then.
    """
    times = [moment.timestamp() for moment, *_ in records]
    steps = [Point(x=at, y=score) for at, (_, _, score, _, _) in zip(times, records, strict=True)]
    points = tuple(
        Point(x=at, y=score, tip=f"{author}: {factor(score, low, high)}\n{moment:%Y-%m-%d %H:%M}")
        for at, (moment, author, score, low, high) in zip(times, records, strict=True)
    )
    intervals = [
        Whisker(tone="accent-strong", x=at, y=score, low=low, high=high)
        for at, (_, _, score, low, high) in zip(times, records, strict=True)
    ]
    layers: tuple[Layer, ...] = (
        level(1.0, times[0], until.timestamp(), name="reference"),
        Line(name="record", tone="accent", points=(*steps, Point(x=until.timestamp(), y=steps[-1].y)), is_step=True),
        *intervals,
        Points(name="one record, with its interval", tone="accent-strong", symbol="dot", points=points),
    )
    x = Axis(title="UTC", scale=Scale.TIME, has_grid=False)
    return Chart(x=x, y=Axis(title="Speedup", unit=Unit.SPEEDUP), layers=layers, is_wide=True)


def attempts_line(attempts: Sequence[tuple[float, float, float]]) -> Chart:
    """One author's passed attempts in their order, each with its interval, and the best so far as steps.

    Args:
        attempts: score, low and high of each, the first one first.
    """
    numbered = list(enumerate(attempts, start=1))
    best = accumulate((score for score, _, _ in attempts), max)
    points = tuple(Point(x=n, y=score, tip=f"attempt {n}: {score:.3f}×") for n, (score, _, _) in numbered)  # noqa: RUF001 - the multiplication sign is meant
    steps = tuple(Point(x=n, y=score) for n, score in enumerate(best, start=1))
    layers: tuple[Layer, ...] = (
        level(1.0, 0.5, len(attempts) + 0.5, name="reference"),
        Line(name="best so far", tone="accent", points=steps, is_step=True),
        *(Whisker(tone="accent-strong", x=n, y=score, low=low, high=high) for n, (score, low, high) in numbered),
        Points(name="one attempt, with its interval", tone="accent-strong", symbol="dot", points=points),
    )
    x = Axis(title="Passed attempts, the first one first", low=0.5, high=len(attempts) + 0.5, has_grid=False)
    return Chart(x=x, y=Axis(title="Speedup", unit=Unit.SPEEDUP), layers=layers, height=230)


SERIES_LOOKS = (("accent", "dot", "solid"), ("success", "square", "dash"), ("warning", "diamond", "dashdot"))
"""Tone, symbol and dash of each series: two lines differ in all three, so they never differ by colour alone."""
REFERENCE = "reference"
_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"), (1, "B"))


@dataclass(frozen=True, kw_only=True)
class Series:
    """Marks of a program or a collective, the smallest size first; `intervals` has (x, end, end) where they are known.

    That called REFERENCE has a look of its own.
    """

    name: str
    points: tuple[Point, ...]
    intervals: tuple[tuple[float, float, float], ...] = field(default=())


def over_size(
    series: Sequence[Series],
    *,
    x: Axis,
    y: Axis,
    floor: Sequence[tuple[float, float]] = (),
    levels: Sequence[tuple[str, float]] = (),
    is_wide: bool = True,
) -> Chart:
    """Series over size, at most as many as there are `SERIES_LOOKS` beside the reference.

    `floor` has (x, y) of the least time. `levels` bound all sizes: a name and its y, drawn across.
    """
    reach = [point.x for each in series for point in each.points]
    layers: list[Layer] = [
        level(y, min(reach), max(reach), name=name, dash="dot" if place else "solid", at_end=not place)
        for place, (name, y) in enumerate(levels)
    ]
    if floor:
        layers.append(
            Line(name="floor", tone="text-muted", points=tuple(Point(x=a, y=b) for a, b in floor), dash="dot")
        )
    looks = iter(SERIES_LOOKS)
    for each in series:
        tone, symbol, dash = ("text-muted", "ring", "longdash") if each.name == REFERENCE else next(looks)
        layers += [Whisker(tone=tone, x=at, y=low, low=low, high=high) for at, low, high in each.intervals]
        layers += marked_line(each.name, each.points, tone=tone, symbol=symbol, dash=dash)
    return Chart(x=x, y=y, layers=tuple(layers), height=350, is_wide=is_wide)


def size_name(value: int, unit: str) -> str:
    """A value of an axis as it is read: `8 MiB`, `16,384 rows`."""
    if unit != "bytes":
        return f"{value:,} {unit}"
    size, name = next(each for each in _UNITS if value >= each[0])
    return f"{value / size:g} {name}"
