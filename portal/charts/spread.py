"""How the times of an evaluation spread: submission and reference side by side at every size, and every rank."""

from collections.abc import Sequence

import plotly.graph_objects as go

from evaluator.contract import SizeTiming, TimeSummary
from portal.charts.figures import base_layout


def _summaries(name: str, rows: Sequence[str], times: Sequence[TimeSummary], *, tone: str, symbol: str) -> go.Scatter:
    return go.Scatter(
        x=[time.median_us for time in times],
        y=list(rows),
        mode="markers",
        name=name,
        marker={"size": 11, "symbol": symbol},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [time.p90_us - time.median_us for time in times],
            "arrayminus": [time.median_us - time.p10_us for time in times],
            "thickness": 2,
        },
        hovertemplate=f"{name}, %{{y}}: %{{x:.4~g}} us<extra></extra>",
        meta={"tone": tone},
    )


def times_spread(sizes: Sequence[SizeTiming]) -> go.Figure:
    """Median, 10 % and 90 % of the calls of submission and reference, and the submission's median on every rank."""
    ours = [f"{size.size}, submission" for size in sizes]
    theirs = [f"{size.size}, reference" for size in sizes]
    ranks = [
        (time_us, row, f"rank {rank}")
        for size, row in zip(sizes, ours, strict=True)
        for rank, time_us in enumerate(size.rank_medians_us)
    ]
    by_rank = go.Scatter(
        x=[time_us for time_us, _, _ in ranks],
        y=[row for _, row, _ in ranks],
        mode="markers",
        name="one rank's median",
        marker={"size": 13, "symbol": "line-ns-open", "line": {"width": 1.5}},
        text=[rank for _, _, rank in ranks],
        hovertemplate="%{text}: %{x:.4~g} us<extra></extra>",
        meta={"tone": "text-muted"},
    )
    figure = go.Figure(
        data=[
            _summaries("reference", theirs, [size.baseline for size in sizes], tone="text-faint", symbol="diamond"),
            _summaries("submission", ours, [size.candidate for size in sizes], tone="accent", symbol="circle"),
            by_rank,
        ],
        layout=base_layout(x_title="Time of a call, us", y_title="", height=120 + 80 * len(sizes) + 60),
    )
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="category", autorange="reversed", categoryorder="array")
    figure.update_yaxes(categoryarray=[row for pair in zip(ours, theirs, strict=True) for row in pair])
    return figure
