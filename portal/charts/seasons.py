"""How the teams of a season grew."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from portal.charts.chart import Axis, Chart, Layer, Point, Scale, Unit, marked_line
from portal.charts.runs import LINES

_LOOKS = (*LINES, ("code-keyword", "solid"), ("code-function", "dash"), ("text-muted", "dot"))
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
        said = [
            Point(
                x=at.timestamp(),
                y=value,
                tip=f"{name}: {f'score {value:.3f}' if is_speed else f'{value:.0f} solved'}\n{at:%Y-%m-%d %H:%M}",
            )
            for at, value in steps
        ]
        start = Point(x=begin.timestamp(), y=1.0 if is_speed else 0.0)
        last = said[-1] if said else start
        line, marks = marked_line(name, said, tone=tone, dash=dash, is_step=True)
        ends = Point(x=max(end.timestamp(), last.x), y=last.y)
        layers += replace(line, points=(start, *line.points, ends)), marks
    title, unit = ("Score", Unit.SPEEDUP) if is_speed else ("Problems solved", Unit.NUMBER)
    x = Axis(title="Time of submission (UTC)", scale=Scale.TIME, has_grid=False)
    return Chart(x=x, y=Axis(title=title, unit=unit), layers=tuple(layers), is_wide=True)
