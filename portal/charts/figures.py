"""What all figures share: a plain layout without a template, and the JSON that static/js/plots.js draws.

A trace names its colour by role in `meta["tone"]` (a name of static/css/tokens.css), so one figure serves light and
dark.
"""

from typing import Any

import plotly.graph_objects as go


def base_layout(*, x_title: str, y_title: str, height: int = 320) -> go.Layout:
    """Axes with titles, room for them, and nothing else; sizes in pixels."""
    return go.Layout(
        template=None,
        height=height,
        margin={"l": 56, "r": 16, "t": 16, "b": 48},
        xaxis={"title": {"text": x_title}, "zeroline": False},
        yaxis={"title": {"text": y_title}, "zeroline": False},
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hovermode="closest",
    )


def figure_data(figure: go.Figure) -> dict[str, Any]:
    """The figure as plain JSON-compatible data."""
    return dict(figure.to_plotly_json())
