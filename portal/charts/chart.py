"""What a figure consists of: two axes and layers of marks, in units of the data. `portal.charts.drawing` draws it.

A tone is a name of `static/css/tokens.css`, so that one figure serves light and dark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
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
