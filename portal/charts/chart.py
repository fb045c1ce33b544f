"""What a figure consists of: two axes with their ticks and layers of marks, in units of the data.

`portal.charts.drawing` draws it. A tone is a name of `static/css/tokens.css`, so that one figure serves light and dark.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any


class Scale(StrEnum):
    """How an axis maps its values; categories stand at 0, 1, 2, ... and times are seconds since 1970."""

    LINEAR = "linear"
    LOG = "log"
    TIME = "time"
    CATEGORY = "category"


class Unit(StrEnum):
    """How the values of an axis are written."""

    NUMBER = "number"
    SPEEDUP = "speedup"
    SHARE = "share"
    MICROSECONDS = "microseconds"


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis. Where `low` or `high` is None, the marks decide; `names` are those of categories or of given ticks."""

    title: str = ""
    scale: Scale = Scale.LINEAR
    unit: Unit = Unit.NUMBER
    low: float | None = None
    high: float | None = None
    names: tuple[tuple[float, str], ...] = ()
    has_grid: bool = True


@dataclass(frozen=True, kw_only=True)
class Point:
    """One mark: its coordinates, its tooltip (lines), the page that it opens, a label next to it."""

    x: float
    y: float
    tip: str = ""
    href: str = ""
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Points:
    """Marks of one kind; `symbol` (a name of `portal.charts.drawing`) distinguishes kinds without colour.

    `legend` is what the legend says instead of the name; nothing where it is empty. A cloud is many pale dots that say
    nothing each.
    """

    name: str
    tone: str
    symbol: str
    points: tuple[Point, ...]
    size: float = 4.5
    is_cloud: bool = False
    legend: str | None = None


@dataclass(frozen=True, kw_only=True)
class Line:
    """Joined points; `label` is written along the line instead of in the legend.

    `is_step` keeps a value until the next one; `at_end` puts the label at the line's right end.
    """

    name: str
    tone: str
    points: tuple[Point, ...]
    dash: str = "solid"
    width: float = 1.8
    label: str = ""
    is_step: bool = False
    at_end: bool = True
    legend: str | None = None


@dataclass(frozen=True, kw_only=True)
class Band:
    """A strip across the whole width between two values of y."""

    name: str
    tone: str
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Whisker:
    """A line from `low` to `high` through a mark at (x, y), along x or along y."""

    tone: str
    x: float
    y: float
    low: float
    high: float
    is_vertical: bool = True


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A rectangle from `start` to `end` at a category: upright, or lying where the chart's `y` holds the categories.

    `offset` and `width` are in categories; `pattern` distinguishes kinds without colour.
    """

    at: float
    start: float
    end: float
    tip: str = ""
    offset: float = 0.0
    width: float = 0.7


@dataclass(frozen=True, kw_only=True)
class Bars:
    name: str
    tone: str
    bars: tuple[Bar, ...]
    pattern: str = ""
    is_lying: bool = False


Layer = Points | Line | Band | Whisker | Bars


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure: layers are drawn in their order. `is_wide` says that it takes a page's whole width.

    Marks beyond an axis with given ends are drawn at the edge as a triangle that points outwards. With
    `can_zoom` readers may draw a rectangle to see a part of it.
    """

    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    height: int = 320
    is_wide: bool = False
    can_zoom: bool = False


def level(y: float, low: float, high: float, *, name: str, dash: str = "dot", **line: Any) -> Line:
    """A line at `y` from `low` to `high` with its name along it; `line` is how it is drawn."""
    ends = (Point(x=low, y=y), Point(x=high, y=y))
    return Line(**{"name": name, "label": name, "tone": "text-muted", "points": ends, "dash": dash, **line})


def marked_line(
    name: str, points: Sequence[Point], *, tone: str, symbol: str = "dot", size: float = 4.5, **line: Any
) -> tuple[Line, Points]:
    """A line through marks that say what they are; `line` is how it is drawn."""
    bare = tuple(Point(x=point.x, y=point.y) for point in points)
    marks = Points(name=name, tone=tone, symbol=symbol, points=tuple(points), size=size, legend="")
    return Line(name=name, tone=tone, points=bare, **line), marks


_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_DAY_S = 86_400.0
_MINUTES = (1, 5, 15, 30, 60, 180, 360, 720, 1440)
_DAYS = (1, 2, 7, 14, 30, 61, 122, 365)
_MOST_LABELS = 8


@dataclass(frozen=True, kw_only=True)
class Ruler:
    """An axis laid out between two positions of the picture, in pixels."""

    axis: Axis
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The position of `value`, also beyond the ends."""
        low, high = self._span
        return self.start + (self._measure(value) - low) / (high - low) * (self.end - self.start)

    @cached_property
    def _span(self) -> tuple[float, float]:
        return self._measure(self.low), self._measure(self.high)

    def holds(self, value: float) -> bool:
        return min(self.low, self.high) <= value <= max(self.low, self.high)

    def nearest(self, value: float) -> float:
        """`value`, or the nearer end if it is beyond."""
        return min(max(value, min(self.low, self.high)), max(self.low, self.high))

    def clamped(self, value: float) -> float:
        """The position of `value`, or of the nearer end if it is beyond."""
        return self.at(self.nearest(value))

    def _measure(self, value: float) -> float:
        # On a logarithmic axis nothing is at 0: it lies far beyond every end.
        return math.log10(max(value, 1e-300)) if self.axis.scale is Scale.LOG else value


def ends(axis: Axis, values: Iterable[float]) -> tuple[float, float]:
    """Where an axis begins and ends: as it says, else around `values` with a little room."""
    low, high = _around(axis, [value for value in values if axis.scale is not Scale.LOG or value > 0])
    return (low if axis.low is None else axis.low), (high if axis.high is None else axis.high)


def _around(axis: Axis, values: Sequence[float]) -> tuple[float, float]:
    if axis.scale is Scale.CATEGORY:
        return -0.5, len(axis.names) - 0.5
    low, high = min(values, default=1.0), max(values, default=1.0)
    if axis.scale is Scale.LOG:
        room = (high / low) ** 0.04 if high > low else 2.0
        return low / room, high * room
    room = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
    return low - room, high + room


def ticks(ruler: Ruler, *, most: int = _MOST_LABELS) -> list[tuple[float, str]]:
    """Values and what is written at them, at most about `most` of them."""
    if ruler.axis.names:
        return [(value, text) for value, text in ruler.axis.names if ruler.holds(value)]
    if ruler.axis.scale is Scale.TIME:
        return _time_ticks(ruler, most)
    values = _log_values(ruler, most) if ruler.axis.scale is Scale.LOG else _linear_values(ruler, most)
    write = _WRITERS[ruler.axis.unit]
    return [(value, write(value)) for value in values]


def _linear_values(ruler: Ruler, most: int) -> list[float]:
    span = ruler.high - ruler.low
    raw = span / max(1, most - 1)
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in _STEPS if power * factor >= raw * 0.999)
    first = math.ceil(ruler.low / step - 1e-9)
    return [round(step * number, 10) for number in range(first, math.floor(ruler.high / step + 1e-9) + 1)]


def _log_values(ruler: Ruler, most: int) -> list[float]:
    first, last = math.ceil(math.log10(ruler.low) - 1e-9), math.floor(math.log10(ruler.high) + 1e-9)
    decades = last - first + 1
    if decades >= 3:
        every = -(-decades // most)
        return [10.0**power for power in range(first, last + 1) if power % every == 0]
    factors = (1, 2, 5) if math.log10(ruler.high / ruler.low) > 0.7 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    found = [factor * 10.0**power for power in range(first - 1, last + 2) for factor in factors]
    inside = [value for value in found if ruler.low <= value <= ruler.high]
    return inside[:: max(1, -(-len(inside) // most))] or _linear_values(ruler, 4)


def _time_ticks(ruler: Ruler, most: int) -> list[tuple[float, str]]:
    wanted = (ruler.high - ruler.low) / _DAY_S / max(1, most - 1)
    if wanted < 1:
        step, pattern = next(each for each in _MINUTES if each >= wanted * 1440 - 1e-6) * 60.0, "%d %b %H:%M"
    else:
        step, pattern = next((day for day in _DAYS if day >= wanted), 730) * _DAY_S, "%d %b %Y"
    first = math.ceil(ruler.low / step) * step
    count = math.floor((ruler.high - first) / step) + 1
    values = [first + step * number for number in range(max(0, count))]
    return [(value, f"{datetime.fromtimestamp(value, UTC):{pattern}}") for value in values]


def number(value: float) -> str:
    """A number as short as it can be read, with k, M, G, ... from a thousand on."""
    magnitude = abs(value)
    for limit, divisor, suffix in ((1e3, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G")):
        if magnitude < limit:
            return f"{value / divisor:.4g}{suffix}"
    return f"{value / 1e12:.4g}T" if magnitude < 1e15 else f"{value / 1e15:.4g}P"


def _microseconds(value: float) -> str:
    if value < 1e3:
        return f"{value:.4g} µs"
    return f"{value / 1e3:.4g} ms" if value < 1e6 else f"{value / 1e6:.4g} s"


_WRITERS: dict[Unit, Callable[[float], str]] = {
    Unit.NUMBER: number,
    Unit.SPEEDUP: lambda value: f"{value:.4g}×",  # noqa: RUF001 - the multiplication sign is meant
    Unit.SHARE: lambda value: f"{100 * value:.4g} %",
    Unit.MICROSECONDS: _microseconds,
}
