"""How the times of an evaluation spread: every timed call of submission and reference, and what they come to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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


def timed_calls(record: Record | None) -> dict[str, Series]:
    """The timed calls of a record by size; empty where the report holds none."""
    found = {}
    for size in record.sizes if record else ():
        calls = {call.number: call for call in size.calls}
        ours = [calls[number].longest_ns for block in size.blocks for number in block if number in calls]
        theirs = [call.longest_ns for block in size.reference for call in block]
        found[size.size] = Series(submission=_thinned(ours), reference=_thinned(theirs))
    return found


def _thinned(times_ns: Sequence[int]) -> tuple[float, ...]:
    every = max(1, -(-len(times_ns) // MOST_CALLS))
    return tuple(round(time / 1e3, 2) for time in times_ns[::every])


class _Row(NamedTuple):
    """One line of the plot."""

    label: str
    height: int
    summary: TimeSummary
    calls: tuple[float, ...]


def times_spread(sizes: Sequence[SizeTiming], calls: Mapping[str, Series]) -> go.Figure:
    """Every timed call, the median with 10 % and 90 %, and the submission's median on every rank.

    Args:
        sizes: what was measured.
        calls: the calls by size, as of `timed_calls`; sizes without any show their summaries alone.
    """
    ours, theirs = [], []
    for number, size in enumerate(sizes):
        held = calls.get(size.size, Series())
        ours.append(_Row(f"{size.size}, submission", 2 * number, size.candidate, held.submission))
        theirs.append(_Row(f"{size.size}, reference", 2 * number + 1, size.baseline, held.reference))
    rows = sorted((*ours, *theirs), key=lambda row: row.height)
    figure = go.Figure(
        data=[
            *_points("reference, one call", theirs, tone="text-faint"),
            *_points("submission, one call", ours, tone="accent"),
            _summaries("reference, median with 10 % and 90 %", theirs, tone="text-muted", symbol="diamond"),
            _summaries("submission, median with 10 % and 90 %", ours, tone="accent-strong", symbol="circle"),
            _ranks(sizes),
        ],
        layout=base_layout(x_title="Time of a call, us", y_title="", height=200 + 90 * len(rows)),
    )
    figure.update_layout(legend={"itemsizing": "constant"})
    figure.update_xaxes(type="log")
    figure.update_yaxes(
        tickvals=[row.height for row in rows],
        ticktext=[row.label for row in rows],
        range=[len(rows) - 0.4, -0.6],
        fixedrange=True,
    )
    return figure


def _points(name: str, rows: Sequence[_Row], *, tone: str) -> Iterator[go.Scatter]:
    if not any(row.calls for row in rows):
        return
    yield go.Scatter(
        x=[time for row in rows for time in row.calls],
        y=[height for row in rows for height in _heights(row.height, len(row.calls))],
        mode="markers",
        name=name,
        marker={"size": 4, "opacity": 0.45},
        hovertemplate=f"{name}: %{{x:.4~g}} us<extra></extra>",
        meta={"tone": tone},
    )


def _heights(middle: float, count: int) -> list[float]:
    step = _BAND / max(1, count - 1)
    return [round(middle - _BAND / 2 + step * index, 3) for index in range(count)]


def _summaries(name: str, rows: Sequence[_Row], *, tone: str, symbol: str) -> go.Scatter:
    return go.Scatter(
        x=[row.summary.median_us for row in rows],
        y=[row.height for row in rows],
        mode="markers",
        name=name,
        marker={"size": 11, "symbol": symbol},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [row.summary.p90_us - row.summary.median_us for row in rows],
            "arrayminus": [row.summary.median_us - row.summary.p10_us for row in rows],
            "thickness": 2,
        },
        text=[row.label for row in rows],
        hovertemplate="%{text}: median %{x:.4~g} us<extra></extra>",
        meta={"tone": tone},
    )


def _ranks(sizes: Sequence[SizeTiming]) -> go.Scatter:
    medians = [
        (time_us, 2 * number, f"{size.size}, rank {rank}")
        for number, size in enumerate(sizes)
        for rank, time_us in enumerate(size.rank_medians_us)
    ]
    return go.Scatter(
        x=[time_us for time_us, _, _ in medians],
        y=[height for _, height, _ in medians],
        mode="markers",
        name="submission, one rank's median",
        marker={"size": 15, "symbol": "line-ns-open", "line": {"width": 1.5}},
        text=[rank for _, _, rank in medians],
        hovertemplate="%{text}: %{x:.4~g} us<extra></extra>",
        meta={"tone": "text"},
    )
