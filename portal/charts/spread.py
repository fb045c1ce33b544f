"""How the times of an evaluation spread: every timed call of submission and reference, and what they come to."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import plotly.graph_objects as go

from evaluator.contract import Record, SizeTiming, TimeSummary
from evaluator.judging.timing import NetSeries
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
    """The net times of a record's timed calls by size, gang after gang; empty where the report holds none."""
    found: dict[str, list[NetSeries]] = {}
    for size in record.sizes if record else ():
        if record and size.blocks:
            found.setdefault(size.size, []).append(NetSeries(size, record.rules))
    # A record that lacks calls is no reason to show nothing else.
    with contextlib.suppress(ValueError):
        return {size: _series(gangs) for size, gangs in found.items()}
    return {}


def _series(gangs: Sequence[NetSeries]) -> Series:
    return Series(
        submission=_thinned([time for net in gangs for block in net.candidate for time in block]),
        reference=_thinned([time for net in gangs for block in net.reference for time in block]),
    )


def _thinned(times_us: Sequence[float]) -> tuple[float, ...]:
    every = max(1, -(-len(times_us) // MOST_CALLS))
    return tuple(round(time, 2) for time in times_us[::every])


class _Row(NamedTuple):
    """One line of the plot."""

    label: str
    height: int
    summary: TimeSummary
    calls: tuple[float, ...]


def times_spread(size: SizeTiming, calls: Series) -> go.Figure:
    """Every timed call at one size, the median with 10 % and 90 %, and the submission's median on every rank.

    Args:
        size: what was measured.
        calls: the size's, as of `timed_calls`; without any its summaries stand alone.
    """
    ours = _Row("submission", 0, size.candidate, calls.submission)
    theirs = _Row("reference", 1, size.baseline, calls.reference)
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
