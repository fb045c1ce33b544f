"""How fast a machine's collectives are over message sizes, under what its links can do."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from portal.charts.figures import base_layout

_LOOKS = (("accent", "circle", "solid"), ("success", "square", "dash"), ("warning", "diamond", "dot"))
"""Tone, symbol and dash of each line: two lines differ in all three, so colour alone never tells them apart."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One collective: (bytes of a message, bus bandwidth in bytes a second, microseconds), smallest message first."""

    name: str
    points: tuple[tuple[int, float, float], ...]


def bus_bandwidths(curves: Sequence[Curve], levels: Sequence[tuple[str, float]]) -> go.Figure:
    """Bus bandwidth over message size on logarithmic axes.

    Args:
        curves: the collectives.
        levels: what bounds them: a name and bytes a second, drawn across.
    """
    reach = [size for curve in curves for size, _, _ in curve.points]
    bounds = [
        go.Scatter(
            x=[min(reach), max(reach)],
            y=[rate, rate],
            mode="lines",
            name=name,
            line={"dash": "solid" if number == 0 else "dot", "width": 1.8},
            hoverinfo="name",
            hoverlabel={"namelength": -1},
            meta={"tone": "text-muted"},
        )
        for number, (name, rate) in enumerate(levels)
    ]
    lines = [
        go.Scatter(
            x=[size for size, _, _ in curve.points],
            y=[rate for _, rate, _ in curve.points],
            mode="lines+markers",
            name=curve.name,
            line={"dash": dash, "width": 2},
            marker={"size": 7, "symbol": symbol},
            customdata=[[None, us] for _, _, us in curve.points],
            hovertemplate=f"{curve.name}, %{{x:.3~s}}B: %{{y:.3~s}}B/s, %{{customdata[1]:.3~g}} us<extra></extra>",
            meta={"tone": tone},
        )
        for curve, (tone, symbol, dash) in zip(curves, _LOOKS, strict=False)
    ]
    layout = base_layout(x_title="Bytes of a message", y_title="Bus bandwidth, bytes/s per GPU", height=360)
    figure = go.Figure(data=[*bounds, *lines], layout=layout)
    figure.update_xaxes(type="log", exponentformat="SI", dtick=1)
    figure.update_yaxes(type="log", exponentformat="SI", dtick=1)
    return figure
