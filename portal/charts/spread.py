"""How the times of an evaluation spread: every timed call of submission and reference, and what they come to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import plotly.graph_objects as go

from evaluator.contract import Record, SizeTiming, TimeSummary
from portal.charts.figures import base_layout

MOST_CALLS = 480
"""More points than this in a row tell nobody more; of a longer series every second, third, ... call is drawn."""
_BAND = 0.56
"""How much of a row the calls take: its first call lies at the top, its last one at the bottom."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Times of the timed calls at one size in microseconds, in their order."""

    submission: tuple[float, ...] = ()
    reference: tuple[float, ...] = ()


def timed_calls(record: Record | None) -> dict[str, list[Series]]:
    """The timed calls of a record by size, a series for each gang of ranks; empty where the report holds none."""
    found: dict[str, list[Series]] = {}
    for size in record.sizes if record else ():
        calls = {call.number: call for call in size.calls}
        ours = [calls[number].longest_ns for block in size.blocks for number in block if number in calls]
        theirs = [call.longest_ns for block in size.reference for call in block]
        if ours:
            series = Series(submission=_thinned(ours), reference=_thinned(theirs))
            found.setdefault(size.size, []).append(series)
    return found


def _counted(series: Sequence[Series], size: SizeTiming) -> Series:
    """The series that the timing is of: the slower gang's counts, and the report does not say which that was."""
    return min(series, key=lambda each: abs(median(each.submission) - size.candidate.median_us), default=Series())


def _thinned(times_ns: Sequence[int]) -> tuple[float, ...]:
    every = max(1, -(-len(times_ns) // MOST_CALLS))
    return tuple(round(time / 1e3, 2) for time in times_ns[::every])


class _Row(NamedTuple):
    """One line of the plot."""

    label: str
    height: int
    summary: TimeSummary
    calls: tuple[float, ...]


def times_spread(size: SizeTiming, calls: Sequence[Series]) -> go.Figure:
    """Every timed call at one size, the median with 10 % and 90 %, and the submission's median on every rank.

    Args:
        size: what was measured.
        calls: the size's series, as of `timed_calls`; without any its summaries stand alone.
    """
    held = _counted(calls, size)
    ours = _Row("submission", 0, size.candidate, held.submission)
    theirs = _Row("reference", 1, size.baseline, held.reference)
    figure = go.Figure(
        data=[
            *_points(theirs, tone="text-faint"),
            *_points(ours, tone="accent"),
            _summary(theirs, tone="text-muted", symbol="diamond"),
            _summary(ours, tone="accent-strong", symbol="circle"),
            _ranks(size),
        ],
        layout=base_layout(x_title=f"Time of a call at size {size.size}, us", y_title="", height=330),
    )
    figure.update_layout(legend={"itemsizing": "constant"})
    figure.update_xaxes(type="log")
    figure.update_yaxes(tickvals=[0, 1], ticktext=[ours.label, theirs.label], range=[1.6, -0.6], fixedrange=True)
    return figure


def _points(row: _Row, *, tone: str) -> Iterator[go.Scatter]:
    if not row.calls:
        return
    name = f"{row.label}, one call"
    yield go.Scatter(
        x=list(row.calls),
        y=_heights(row.height, len(row.calls)),
        mode="markers",
        name=name,
        marker={"size": 4, "opacity": 0.45},
        hovertemplate=f"{name}: %{{x:.4~g}} us<extra></extra>",
        meta={"tone": tone},
    )


def _heights(middle: float, count: int) -> list[float]:
    step = _BAND / max(1, count - 1)
    return [round(middle - _BAND / 2 + step * index, 3) for index in range(count)]


def _summary(row: _Row, *, tone: str, symbol: str) -> go.Scatter:
    time = row.summary
    return go.Scatter(
        x=[time.median_us],
        y=[row.height],
        mode="markers",
        name=f"{row.label}, median with 10 % and 90 %",
        marker={"size": 11, "symbol": symbol},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [time.p90_us - time.median_us],
            "arrayminus": [time.median_us - time.p10_us],
            "thickness": 2,
        },
        hovertemplate=f"{row.label}: median %{{x:.4~g}} us<extra></extra>",
        meta={"tone": tone},
    )


def _ranks(size: SizeTiming) -> go.Scatter:
    return go.Scatter(
        x=list(size.rank_medians_us),
        y=[0] * len(size.rank_medians_us),
        mode="markers",
        name="submission, one rank's median",
        marker={"size": 15, "symbol": "line-ns-open", "line": {"width": 1.5}},
        text=[f"rank {rank}" for rank in range(len(size.rank_medians_us))],
        hovertemplate="%{text}: %{x:.4~g} us<extra></extra>",
        meta={"tone": "text"},
    )
