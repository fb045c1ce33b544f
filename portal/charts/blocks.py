"""The ratios of an evaluation's A B B A blocks, with the score and its interval."""

import plotly.graph_objects as go

from evaluator.contract import Timing
from portal.charts.figures import base_layout

MOST_TICKS = 13
"""More numbers of blocks than these run into each other."""


def _level(count: int, value: float, *, name: str, dash: str) -> go.Scatter:
    return go.Scatter(
        x=[0.5, count + 0.5],
        y=[value, value],
        mode="lines",
        name=name,
        line={"dash": dash, "width": 1.5},
        hoverinfo="name+y",
        meta={"tone": "text-faint" if dash == "dot" else "accent"},
    )


def block_ratios(timing: Timing) -> go.Figure:
    """Speedup over the reference per block (1 is the reference's own time), the score and its interval.

    Args:
        timing: a passed evaluation's timing; its blocks already combine the sizes.
    """
    count = len(timing.blocks)
    points = go.Scatter(
        x=list(range(1, count + 1)),
        y=list(timing.blocks),
        mode="markers",
        name="one block",
        marker={"size": 8},
        hovertemplate="block %{x}: %{y:.3f}x<extra></extra>",
        meta={"tone": "accent"},
    )
    band = go.Scatter(
        x=[0.5, count + 0.5, count + 0.5, 0.5],
        y=[timing.low, timing.low, timing.high, timing.high],
        fill="toself",
        mode="none",
        opacity=0.35,
        name="interval",
        hoverinfo="skip",
        meta={"tone": "accent", "fill": True},
    )
    figure = go.Figure(
        data=[
            band,
            _level(count, timing.score, name="score", dash="solid"),
            _level(count, 1.0, name="reference", dash="dot"),
            points,
        ],
        layout=base_layout(x_title="Block", y_title="Speedup over the reference"),
    )
    figure.update_xaxes(range=[0.5, count + 0.5], tick0=1, dtick=-(-count // MOST_TICKS))
    return figure
