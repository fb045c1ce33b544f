"""How the teams of a season grew."""

from collections.abc import Sequence
from datetime import datetime

from portal.charts.chart import Axis, Chart, Layer, Line, Point, Points, Scale, Unit

_LOOKS = (
    ("accent", "solid"),
    ("danger", "dash"),
    ("success", "dot"),
    ("warning", "dashdot"),
    ("code-type", "longdash"),
    ("code-keyword", "solid"),
    ("code-function", "dash"),
    ("text-muted", "dot"),
)
"""Tone and dash of each line: two lines differ in both, so they never differ by colour alone."""


def progress_chart(
    lines: Sequence[tuple[str, Sequence[tuple[datetime, float]]]], *, begin: datetime, end: datetime, is_speed: bool
) -> Chart:
    """Every team's score as steps from the beginning of a season to its end.

    Args:
        lines: names with what each had from a moment on, the first moment first; at most as many as there are looks.
        begin: where the lines start: at 1 for speeds, at 0 for numbers of problems.
        end: where they end.
        is_speed: whether the values are speedups; else they are numbers of problems solved.
    """
    layers: list[Layer] = []
    for (name, steps), (tone, dash) in zip(lines, _LOOKS, strict=False):
        layers += _line(name, steps, tone=tone, dash=dash, begin=begin, end=end, is_speed=is_speed)
    title, unit = ("Score", Unit.SPEEDUP) if is_speed else ("Problems solved", Unit.NUMBER)
    x = Axis(title="Time of submission (UTC)", scale=Scale.TIME, has_grid=False)
    return Chart(x=x, y=Axis(title=title, unit=unit), layers=tuple(layers), is_wide=True)


def _line(
    name: str,
    steps: Sequence[tuple[datetime, float]],
    *,
    tone: str,
    dash: str,
    begin: datetime,
    end: datetime,
    is_speed: bool,
) -> list[Layer]:
    start = Point(x=begin.timestamp(), y=1.0 if is_speed else 0.0)
    reached = [Point(x=at.timestamp(), y=value) for at, value in steps]
    last = Point(x=max(end.timestamp(), reached[-1].x if reached else 0.0), y=reached[-1].y if reached else start.y)
    said = f"{'score ' if is_speed else ''}%s{'' if is_speed else ' solved'}"
    tips = tuple(
        Point(
            x=at.timestamp(),
            y=value,
            tip=f"{name}: {said % (f'{value:.3f}' if is_speed else int(value))}\n{at:%Y-%m-%d %H:%M}",
        )
        for at, value in steps
    )
    return [
        Line(name=name, tone=tone, dash=dash, points=(start, *reached, last), is_step=True),
        Points(name=name, tone=tone, symbol="dot", points=tips, legend=""),
    ]
