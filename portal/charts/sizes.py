"""Programs or collectives over size: times above their floor, bandwidths under what links can do."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from portal.charts.chart import Axis, Chart, Layer, Line, Point, Whisker, level, marked_line

LOOKS = (("accent", "dot", "solid"), ("success", "square", "dash"), ("warning", "diamond", "dashdot"))
"""Tone, symbol and dash of each series: two lines differ in all three, so they never differ by colour alone."""
REFERENCE = "reference"
_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"), (1, "B"))


@dataclass(frozen=True, kw_only=True)
class Series:
    """Marks of a program or a collective, the smallest size first; `intervals` has (x, end, end) where they are known.

    That called REFERENCE has a look of its own.
    """

    name: str
    points: tuple[Point, ...]
    intervals: tuple[tuple[float, float, float], ...] = field(default=())


def over_size(
    series: Sequence[Series],
    *,
    x: Axis,
    y: Axis,
    floor: Sequence[tuple[float, float]] = (),
    levels: Sequence[tuple[str, float]] = (),
    is_wide: bool = True,
) -> Chart:
    """Series over size, at most as many as there are `LOOKS` beside the reference.

    `floor` has (x, y) of the least time. `levels` bound all sizes: a name and its y, drawn across.
    """
    reach = [point.x for each in series for point in each.points]
    layers: list[Layer] = [
        level(y, min(reach), max(reach), name=name, dash="dot" if place else "solid", at_end=not place)
        for place, (name, y) in enumerate(levels)
    ]
    if floor:
        layers.append(
            Line(name="floor", tone="text-muted", points=tuple(Point(x=a, y=b) for a, b in floor), dash="dot")
        )
    looks = iter(LOOKS)
    for each in series:
        tone, symbol, dash = ("text-muted", "ring", "longdash") if each.name == REFERENCE else next(looks)
        layers += [Whisker(tone=tone, x=at, y=low, low=low, high=high) for at, low, high in each.intervals]
        layers += marked_line(each.name, each.points, tone=tone, symbol=symbol, dash=dash)
    return Chart(x=x, y=y, layers=tuple(layers), height=350, is_wide=is_wide)


def size_name(value: int, unit: str) -> str:
    """A value of an axis as it is read: `8 MiB`, `16,384 rows`."""
    if unit != "bytes":
        return f"{value:,} {unit}"
    size, name = next(each for each in _UNITS if value >= each[0])
    return f"{value / size:g} {name}"
