"""How the times of one evaluation spread: timed calls of submission and reference, blocks, and what they come to."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluator.contract import Record, SizeTiming, TimeSummary, Timing
from evaluator.judging.timing import NetSeries
from portal.charts.chart import Axis, Band, Chart, Layer, Point, Points, Scale, Unit, Whisker, level, number

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
        return {
            size: Series(
                submission=_thinned([net.candidate for net in groups]),
                reference=_thinned([net.reference for net in groups]),
            )
            for size, groups in found.items()
        }
    return {}


def _thinned(groups: Sequence[Sequence[Sequence[float]]]) -> tuple[float, ...]:
    times_us = [time for blocks in groups for block in blocks for time in block]
    every = max(1, -(-len(times_us) // MOST_CALLS))
    return tuple(round(time, 2) for time in times_us[::every])


def times_spread(size: SizeTiming, calls: Series) -> Chart:
    """Every timed call at one size, the median with 10 % and 90 %, and the submission's median on every rank.

    Args:
        size: what was measured.
        calls: the size's, as of `timed_calls`; without any only its summaries are drawn.
    """
    layers = (
        *_row("reference", 1, size.baseline, calls.reference, tones=("text-faint", "text-muted"), symbol="diamond"),
        *_row("submission", 0, size.candidate, calls.submission, tones=("accent", "accent-strong"), symbol="dot"),
        _ranks(size),
    )
    x = Axis(title=f"Time of a call at size {size.size}", scale=Scale.LOG, unit=Unit.MICROSECONDS)
    y = Axis(low=1.5, high=-0.55, names=((0.0, "submission"), (1.0, "reference")), has_grid=False)
    return Chart(x=x, y=y, layers=layers, height=230)


def _row(
    label: str, height: int, summary: TimeSummary, calls: Sequence[float], *, tones: tuple[str, str], symbol: str
) -> Iterator[Layer]:
    """A row's calls as a cloud, and their summary over it."""
    tone, strong = tones
    step = _BAND / max(1, len(calls) - 1)
    cloud = tuple(Point(x=time, y=round(height - _BAND / 2 + step * index, 3)) for index, time in enumerate(calls))
    if cloud:
        name = f"{label}, one call"
        yield Points(name=name, tone=tone, symbol="dot", points=cloud, size=1.7, is_cloud=True, legend="")
    ends = (summary.p10_us, summary.p90_us)
    tip = f"{label}: median {number(summary.median_us)} µs\n{number(ends[0])} to {number(ends[1])} µs"
    mark = Point(x=summary.median_us, y=height, tip=tip)
    yield Whisker(tone=strong, x=mark.x, y=mark.y, low=ends[0], high=ends[1], is_vertical=False)
    yield Points(name=f"{label}, median", tone=strong, symbol=symbol, points=(mark,), size=5.5, legend="")


def _ranks(size: SizeTiming) -> Points:
    points = tuple(
        Point(x=us, y=0.0, tip=f"rank {rank}: median {number(us)} µs") for rank, us in enumerate(size.rank_medians_us)
    )
    return Points(name="one rank's median", tone="text", symbol="tick", points=points, size=6, legend="")


def block_ratios(timing: Timing) -> Chart:
    """Speedup over the reference per block (1 is the reference's own time), the score and its interval.

    Args:
        timing: a passed evaluation's timing; its blocks already combine the sizes.
    """
    low, high = 0.5, len(timing.blocks) + 0.5
    points = tuple(
        Point(x=n, y=ratio, tip=f"block {n}: {number(ratio)} times as fast")
        for n, ratio in enumerate(timing.blocks, start=1)
    )
    layers = (
        Band(name="interval of the score", tone="accent", low=timing.low, high=timing.high),
        level(1.0, low, high, name="reference"),
        level(timing.score, low, high, name="score", tone="accent", dash="solid"),
        Points(name="one block", tone="accent", symbol="dot", points=points),
    )
    x = Axis(title="Block", low=low, high=high, has_grid=False)
    return Chart(x=x, y=Axis(title="Speedup over the reference", unit=Unit.SPEEDUP), layers=layers)
