"""Speedups over time: the records of a board, and the attempts of an author."""

from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate

from portal.charts.chart import Axis, Chart, Layer, Line, Point, Points, Scale, Unit, Whisker, level
from portal.core.speedups import factor


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
