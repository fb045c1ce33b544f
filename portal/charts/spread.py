"""How the times of an evaluation spread: every timed call of submission and reference, and what they come to."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evaluator.contract import Record, SizeTiming, TimeSummary
from evaluator.judging.timing import NetSeries
from portal.charts.chart import Axis, Chart, Layer, Point, Points, Scale, Unit, Whisker
from portal.charts.scales import number

MOST_CALLS = 160
"""The most points in a row; of a longer series every second, third, ... call is drawn."""
_BAND = 0.56
"""How much of a row the calls take: its first call lies at the top, its last one at the bottom."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Times of the timed calls at one size in microseconds, in their order."""

    submission: tuple[float, ...] = ()
    reference: tuple[float, ...] = ()


def timed_calls(record: Record | None) -> dict[str, Series]:
    """The net times of a record's timed calls by size, one worker group after another; empty if the report has none."""
    found: dict[str, list[NetSeries]] = {}
    for size in record.sizes if record else ():
        if record and size.blocks:
            found.setdefault(size.size, []).append(NetSeries(size, record.rules))
    # A record that lacks calls is no reason to show nothing else.
    with contextlib.suppress(ValueError):
        return {size: _series(groups) for size, groups in found.items()}
    return {}


def _series(groups: Sequence[NetSeries]) -> Series:
    return Series(
        submission=_thinned([time for net in groups for block in net.candidate for time in block]),
        reference=_thinned([time for net in groups for block in net.reference for time in block]),
    )


def _thinned(times_us: Sequence[float]) -> tuple[float, ...]:
    every = max(1, -(-len(times_us) // MOST_CALLS))
    return tuple(round(time, 2) for time in times_us[::every])


class _Row(NamedTuple):
    label: str
    height: int
    summary: TimeSummary
    calls: tuple[float, ...]


def times_spread(size: SizeTiming, calls: Series) -> Chart:
    """Every timed call at one size, the median with 10 % and 90 %, and the submission's median on every rank.

    Args:
        size: what was measured.
        calls: the size's, as of `timed_calls`; without any only its summaries are drawn.
    """
    ours = _Row("submission", 0, size.candidate, calls.submission)
    theirs = _Row("reference", 1, size.baseline, calls.reference)
    layers = (
        *_points(theirs, tone="text-faint"),
        *_points(ours, tone="accent"),
        *_summary(theirs, tone="text-muted", symbol="diamond"),
        *_summary(ours, tone="accent-strong", symbol="dot"),
        _ranks(size),
    )
    x = Axis(title=f"Time of a call at size {size.size}", scale=Scale.LOG, unit=Unit.MICROSECONDS)
    y = Axis(low=1.5, high=-0.55, names=((0.0, ours.label), (1.0, theirs.label)), has_grid=False)
    return Chart(x=x, y=y, layers=layers, height=230)


def _points(row: _Row, *, tone: str) -> Iterator[Points]:
    heights = _heights(row.height, len(row.calls))
    name = f"{row.label}, one call"
    points = tuple(Point(x=time, y=at) for time, at in zip(row.calls, heights, strict=True))
    if points:
        yield Points(name=name, tone=tone, symbol="dot", points=points, size=1.7, is_cloud=True, legend="")


def _heights(middle: float, count: int) -> list[float]:
    step = _BAND / max(1, count - 1)
    return [round(middle - _BAND / 2 + step * index, 3) for index in range(count)]


def _summary(row: _Row, *, tone: str, symbol: str) -> tuple[Layer, Layer]:
    time = row.summary
    tip = f"{row.label}: median {number(time.median_us)} µs\n{number(time.p10_us)} to {number(time.p90_us)} µs"
    mark = Point(x=time.median_us, y=row.height, tip=tip)
    return (
        Whisker(tone=tone, x=mark.x, y=mark.y, low=time.p10_us, high=time.p90_us, is_vertical=False),
        Points(name=f"{row.label}, median", tone=tone, symbol=symbol, points=(mark,), size=5.5, legend=""),
    )


def _ranks(size: SizeTiming) -> Points:
    points = tuple(
        Point(x=us, y=0.0, tip=f"rank {rank}: median {number(us)} µs") for rank, us in enumerate(size.rank_medians_us)
    )
    return Points(name="one rank's median", tone="text", symbol="tick", points=points, size=6, legend="")
