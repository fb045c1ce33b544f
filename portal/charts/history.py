"""Boards over time and over ranks: the line of records, and leaders beside the reference at 2, 4 and 8 ranks."""

from collections.abc import Sequence
from datetime import datetime

import plotly.graph_objects as go

from portal.charts.figures import base_layout


def record_line(records: Sequence[tuple[datetime, str, float, float, float]], *, until: datetime) -> go.Figure:
    """The record's speedup over time as steps, each with its interval.

    Args:
        records: time, author, score, low and high of every record, the first one first.
        until: where the line ends: the last record holds until then.
    """
    times = [moment.isoformat() for moment, *_ in records]
    scores = [score for _, _, score, _, _ in records]
    steps = go.Scatter(
        x=[*times, until.isoformat()],
        y=[*scores, scores[-1]],
        mode="lines",
        line={"shape": "hv", "width": 2},
        name="record",
        hoverinfo="skip",
        meta={"tone": "accent"},
    )
    points = go.Scatter(
        x=times,
        y=scores,
        mode="markers",
        marker={"size": 8},
        name="one record, with its interval",
        text=[author for _, author, *_ in records],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [high - score for _, _, score, _, high in records],
            "arrayminus": [score - low for _, _, score, low, _ in records],
        },
        hovertemplate="%{text}: %{y:.3f}x<extra>%{x}</extra>",
        meta={"tone": "accent-strong"},
    )
    reference = go.Scatter(
        x=[times[0], until.isoformat()],
        y=[1.0, 1.0],
        mode="lines",
        line={"dash": "dot", "width": 1.5},
        name="reference",
        hoverinfo="name",
        meta={"tone": "text-faint"},
    )
    return go.Figure(data=[steps, reference, points], layout=base_layout(x_title="UTC", y_title="Speedup"))


Line = tuple[str, str, str, tuple[tuple[int, float], ...]]
"""Name, dash ("solid", "dot", ...), tone and points (ranks, microseconds) of a line."""


def times_over_ranks(series: Sequence[Line]) -> go.Figure:
    """Time of a call over the number of ranks, both axes logarithmic.

    Args:
        series: the lines, best and reference at every size.
    """
    lines = [
        go.Scatter(
            x=[ranks for ranks, _ in points],
            y=[time_us for _, time_us in points],
            mode="lines+markers",
            name=name,
            line={"dash": dash, "width": 2},
            marker={"size": 8},
            hovertemplate=f"{name}, %{{x}} ranks: %{{y:.1f}} us<extra></extra>",
            meta={"tone": tone},
        )
        for name, dash, tone, points in series
    ]
    figure = go.Figure(data=lines, layout=base_layout(x_title="Ranks", y_title="Time of a call, us"))
    figure.update_xaxes(type="log", tickvals=[2, 4, 8], ticktext=["2", "4", "8"])
    figure.update_yaxes(type="log")
    return figure
