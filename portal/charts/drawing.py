"""Charts as SVG, drawn by the server: no script, no style attribute, so that they print, travel and obey the policy.

A mark carries what it says as its title. Once a reader touches a chart, Plotly draws its marks in the same frame, from
`portal.charts.figures`. All words stay those of this picture, so that their places are computed here and nowhere else.
"""

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

from portal.charts.chart import Band, Bar, Bars, Chart, Layer, Line, Point, Points, Ruler, Scale, Whisker, ends, ticks

TOKENS = Path(__file__).resolve().parents[2] / "static" / "css" / "tokens.css"
PHONE_PX = 380
"""How wide the picture for narrow places is."""
TEXT_PX = 12
_CHARACTER_PX = 6.6
"""How wide a character of our text is on average; a little more than most, so that nothing is cut."""
_DASHES = {"dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3", "longdash": "11 4"}
_LEGEND_ROW_PX = 19
_LABEL_PX = 6.1
"""The same of the smaller letters beside marks."""
_LINE_PX = 13
_PARALLEL, _STRIP_PX = 0.1, 8
"""Up to which angle in radians lines are parallel, and how near to one a label is not that of another."""
_PLACES = 16
"""How many places along a line its label tries, beside the first."""
_ABOVE_PX = 9
"""How far a label may reach above the frame: the legend leaves so much."""
_NAMES_FROM_PX = 700
"""The width from which a picture has labels next to its points."""
_RIGHT_PX = 16
_MOST_ALONG_Y = 6
_PATTERNS = {
    "/": "M0 6L6 0",
    "\\": "M0 0L6 6",
    "x": "M0 0L6 6M0 6L6 0",
    "-": "M0 3L6 3",
    "|": "M3 0L3 6",
    "+": "M0 3L6 3M3 0L3 6",
    ".": "M2.5 3L3.5 3",
}


Corner = tuple[float, float]


class Box(NamedTuple):
    """A rectangle, upright or turned: its corners, and the upright bounds around them."""

    corners: tuple[Corner, Corner, Corner, Corner]
    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether the bounds of the two have a part in common: of rectangles that lie apart, most have not."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


@dataclass(frozen=True, kw_only=True)
class Page:
    """A chart laid out: its rulers and the size of the picture in pixels; one outside pages knows no style sheet."""

    chart: Chart
    x: Ruler
    y: Ruler
    width: int
    height: int
    is_standalone: bool
    in_legend: tuple[Line, ...] = ()
    """The lines whose labels find no free place along them: the legend names them."""

    @cached_property
    def marks(self) -> list[Box]:
        """Where points are that a label would cover."""
        return [
            _boxed(self.x.clamped(point.x), self.y.clamped(point.y), 2.6 * layer.size, 2.6 * layer.size)
            for layer in self.chart.layers
            if isinstance(layer, Points) and not layer.is_cloud
            for point in layer.points
        ]

    def tone(self, name: str) -> str:
        """The attribute that gives an element its tone: elements are drawn in `currentColor`."""
        return f'color="{light_colours()[name]}"' if self.is_standalone else f'class="t-{name}"'


@cache
def light_colours() -> dict[str, str]:
    """Every colour of the light theme by its name."""
    return dict(re.findall(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}),", TOKENS.read_text(encoding="utf-8")))


def wide_px(chart: Chart) -> int:
    """How wide a chart's picture for wide places is: that of a page, or of a column."""
    return 1140 if chart.is_wide else 540


def svg(chart: Chart, *, width: int, label: str = "", is_standalone: bool = False) -> str:
    """The chart `width` pixels wide, as one element with the accessible name `label`.

    A standalone picture has the light theme's colours, its background among them: it has no page behind it.
    """
    page, labels, words = _placed(chart, width=width, is_standalone=is_standalone)
    marks = "".join(
        f"<g {page.tone(layer.tone)}>{''.join(_DRAWERS[type(layer)](page, layer))}</g>" for layer in chart.layers
    )
    parts = [*_frame(page), f'<g class="plot-marks">{marks}</g>', *labels, *_point_labels(page, words), *_legend(page)]
    name = f' role="img" aria-label="{escape(label)}"' if label else ' aria-hidden="true"'
    frame = " ".join(f"{end:.1f}" for end in (page.x.start, page.y.end, page.x.end, page.y.start))
    look = f'data-frame="{frame}" font-size="{TEXT_PX}" fill="currentColor"'
    if is_standalone:
        parts.insert(0, f'<rect width="{width}" height="{page.height}" fill="currentColor" {page.tone("surface")}/>')
        look += f' xmlns="http://www.w3.org/2000/svg" font-family="DejaVu Sans, sans-serif" width="{width}"'
        look += f' height="{page.height}"'
    head = f'viewBox="0 0 {width} {page.height}" {look}{name}'
    return f"<svg {head}>{''.join(parts)}</svg>"


def laid_out(chart: Chart, *, width: int, is_standalone: bool = False) -> Page:
    """The frame of the chart in a picture of that width, with the room that its legend, ticks and titles take."""
    return _placed(chart, width=width, is_standalone=is_standalone)[0]


def _placed(
    chart: Chart, *, width: int, is_standalone: bool, in_legend: tuple[Line, ...] = ()
) -> tuple[Page, list[str], list[Box]]:
    """The same with the labels along its lines, and where their words are."""
    page, words = _framed(chart, width, in_legend, is_standalone=is_standalone), list[Box]()
    found = list(_line_labels(page, words))
    # A longer legend moves the frame, and the places along its lines with it.
    if left := [line for line, text in found if not text]:
        return _placed(chart, width=width, is_standalone=is_standalone, in_legend=(*in_legend, *left))
    return page, [text for _, text in found], words


def _framed(chart: Chart, width: int, in_legend: tuple[Line, ...], *, is_standalone: bool) -> Page:
    rows = _legend_rows(chart, width, in_legend)
    top = 14 + _LEGEND_ROW_PX * len(rows)
    # A legend of many rows makes the picture higher, not its plot lower.
    height = chart.height + _LEGEND_ROW_PX * max(0, len(rows) - 2)
    bottom = height - (46 if chart.x.title else 28)
    low, high = ends(chart.y, _values(chart.layers, "y"))
    y = Ruler(axis=chart.y, low=low, high=high, start=bottom, end=top)
    margin = 12 + max((len(text) for _, text in ticks(y, most=_MOST_ALONG_Y)), default=0) * _CHARACTER_PX
    left = min(margin + (18 if chart.y.title else 0), width * 0.4)
    low, high = ends(chart.x, _values(chart.layers, "x"))
    x = Ruler(axis=chart.x, low=low, high=high, start=left, end=width - _RIGHT_PX)
    return Page(chart=chart, x=x, y=y, width=width, height=height, is_standalone=is_standalone, in_legend=in_legend)


def _values(layers: Iterable[Layer], name: str) -> Iterator[float]:
    """Every value that an axis has to cover."""
    for layer in layers:
        match layer:
            case Points() | Line():
                yield from (getattr(point, name) for point in layer.points)
            case Band() if name == "y":
                yield from (layer.low, layer.high)
            case Whisker() if (name == "y") == layer.is_vertical:
                yield from (layer.low, layer.high)
            case Bars() if (name == "x") == layer.is_lying:
                yield from (value for bar in layer.bars for value in (bar.start, bar.end))


def _text(
    page: Page, text: str, x: float, y: float, *, tone: str = "text-muted", anchor: str = "middle", more: str = ""
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}"{more} text-anchor="{anchor}"'
    return f"<text {place} {page.tone(tone)}>{escape(text)}</text>"


def _stroke(page: Page, path: str, tone: str) -> str:
    return f'<path d="{path}" fill="none" stroke="currentColor" {page.tone(tone)}/>'


def _frame(page: Page) -> Iterator[str]:
    x, y = page.x, page.y
    grid, words = "", []
    for value, text, middle in _spaced(page, ticks(x)):
        if x.axis.has_grid and x.axis.scale is not Scale.CATEGORY:
            grid += f"M{x.at(value):.1f} {y.end:.1f}V{y.start:.1f}"
        words.append(_text(page, text, middle, y.start + 17))
    for value, text in ticks(y, most=_MOST_ALONG_Y):
        at = y.at(value)
        if y.axis.has_grid and y.axis.scale is not Scale.CATEGORY:
            grid += f"M{x.start:.1f} {at:.1f}H{x.end:.1f}"
        lines = textwrap.wrap(text, max(1, int((x.start - 12) / _CHARACTER_PX)), max_lines=2, placeholder=" …")
        for number, line in enumerate(lines):
            lift = _LINE_PX * (number - (len(lines) - 1) / 2)
            words.append(_text(page, line, x.start - 7, at + 4 + lift, anchor="end"))
    yield _stroke(page, grid, "border") if grid else ""
    yield from words
    yield _stroke(page, f"M{x.start:.1f} {y.end:.1f}V{y.start:.1f}H{x.end:.1f}", "border-strong")
    if x.axis.title:
        yield _text(page, x.axis.title, (x.start + x.end) / 2, y.start + 37)
    if y.axis.title:
        turn = f' transform="translate(13 {(y.start + y.end) / 2:.1f}) rotate(-90)"'
        yield _text(page, y.axis.title, 0, 0, more=turn)


def _spaced(page: Page, found: Sequence[tuple[float, str]]) -> Iterator[tuple[float, str, float]]:
    """The ticks of the horizontal axis whose texts do not run into each other, with the middle of each text."""
    free = -math.inf
    for value, text in found:
        width = len(text) * _CHARACTER_PX
        middle = min(page.x.at(value), page.width - width * 0.62)
        if middle - width / 2 - 4 >= free:
            yield value, text, middle
            free = middle + width / 2 + 4


def _points(page: Page, layer: Points) -> Iterator[str]:
    if layer.is_cloud:
        dots = "".join(f"M{page.x.clamped(point.x):.0f} {page.y.clamped(point.y):.0f}h0" for point in layer.points)
        look = f'stroke="currentColor" stroke-width="{2 * layer.size:g}" stroke-linecap="round" opacity="0.5"'
        yield f'<path d="{dots}" fill="none" {look}/>'
        return
    for point in layer.points:
        x, y = page.x.clamped(point.x), page.y.clamped(point.y)
        shape = _EDGES.get(edge_of(page, point), _SYMBOLS[layer.symbol])
        said = _said(page, point.tip, "path")
        yield f'<path d="{_symbol_path(shape, x, y, layer.size)}"{_paint(layer.symbol)}{said}'


def _paint(symbol: str) -> str:
    # Ticks and dashes are lines, and a line that is only filled is not there.
    if symbol in ("ring", "diamond-ring", "tick", "dash"):
        return ' fill="none" stroke="currentColor" stroke-width="1.5" pointer-events="all"'
    return ""


Shape = tuple[tuple[float, float], ...]
_STAR: Shape = tuple(
    (math.sin(math.pi * turn / 5) * radius, -math.cos(math.pi * turn / 5) * radius)
    for turn, radius in enumerate((1.45, 0.6) * 5)
)
_SYMBOLS: dict[str, Shape | str] = {
    "dot": "circle",
    "ring": "circle",
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "diamond-ring": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "star": _STAR,
    "tick": ((0, -1.8), (0, 1.8)),
    "dash": ((-1.8, 0), (1.8, 0)),
}


_EDGES: dict[str, Shape] = {
    "up": ((-1.1, 1.3), (1.1, 1.3), (0, -1.3)),
    "down": ((-1.1, -1.3), (1.1, -1.3), (0, 1.3)),
    "right": ((-1.3, -1.1), (-1.3, 1.1), (1.3, 0)),
    "left": ((1.3, -1.1), (1.3, 1.1), (-1.3, 0)),
}
"""Triangles that point to where a mark beyond the ends of an axis would be."""


def edge_of(page: Page, point: Point) -> str:
    """The edge beyond which a mark would be, a key of `_EDGES`; empty for one inside the frame."""
    if not page.y.holds(point.y):
        return "up" if point.y > page.y.high else "down"
    if not page.x.holds(point.x):
        return "right" if point.x > page.x.high else "left"
    return ""


def _symbol_path(shape: Shape | str, x: float, y: float, size: float) -> str:
    if isinstance(shape, str):
        half = f"a{size:g} {size:g} 0 1 0 "
        return f"M{x - size:.1f} {y:.1f}{half}{2 * size:g} 0{half}{-2 * size:g} 0"
    corners = "L".join(f"{x + dx * size:.1f} {y + dy * size:.1f}" for dx, dy in shape)
    return f"M{corners}" + ("z" if len(shape) > 2 else "")


def _said(page: Page, tip: str, tag: str) -> str:
    """The rest of an element: what its title says, and its end. Phones, where nothing hovers, show no titles."""
    return f"><title>{escape(tip)}</title></{tag}>" if tip and page.width > PHONE_PX else "/>"


def _line(page: Page, layer: Line) -> Iterator[str]:
    corners = _corners(page, layer)
    if not corners:
        return
    path = f"M{corners[0][0]:.1f} {corners[0][1]:.1f}"
    for x, y in corners[1:]:
        path += f"H{x:.1f}V{y:.1f}" if layer.is_step else f"L{x:.1f} {y:.1f}"
    dash = f' stroke-dasharray="{_DASHES[layer.dash]}"' if layer.dash in _DASHES else ""
    look = f'fill="none" stroke="currentColor" stroke-width="{layer.width:g}" stroke-linejoin="round"{dash}'
    yield f'<path d="{path}" {look}/>'
    for point in (point for point in layer.points if point.tip and page.width > PHONE_PX):
        spot = _symbol_path("circle", page.x.clamped(point.x), page.y.clamped(point.y), 6)
        yield f'<path d="{spot}" fill="none" pointer-events="all"{_said(page, point.tip, "path")}'


def _corners(page: Page, layer: Line) -> list[Corner]:
    """Where a line turns, in pixels: of a straight one the part inside the frame, nothing where it lies outside."""
    if len(layer.points) != 2:
        return [(page.x.clamped(point.x), page.y.clamped(point.y)) for point in layer.points]
    (ax, ay), (bx, by) = ((page.x.at(point.x), page.y.at(point.y)) for point in layer.points)
    cuts = [(edge - ax) / (bx - ax) for edge in (page.x.start, page.x.end) if ax != bx]
    cuts += [(edge - ay) / (by - ay) for edge in (page.y.start, page.y.end) if ay != by]
    corners = [(ax + part * (bx - ax), ay + part * (by - ay)) for part in sorted((0.0, *cuts, 1.0)) if 0 <= part <= 1]
    room = 0.01
    inside = [
        (x, y)
        for x, y in corners
        if page.x.start - room <= x <= page.x.end + room and page.y.end - room <= y <= page.y.start + room
    ]
    return [inside[0], inside[-1]] if inside else []


def _band(page: Page, layer: Band) -> Iterator[str]:
    top, bottom = page.y.clamped(layer.high), page.y.clamped(layer.low)
    path = f"M{page.x.start:.1f} {top:.1f}H{page.x.end:.1f}V{max(top + 0.5, bottom):.1f}H{page.x.start:.1f}z"
    yield f'<path d="{path}" opacity="0.16"/>'


def _whisker(page: Page, layer: Whisker) -> Iterator[str]:
    x, y = page.x.clamped(layer.x), page.y.clamped(layer.y)
    if layer.is_vertical:
        low, high = page.y.clamped(layer.low), page.y.clamped(layer.high)
        path = f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"
    else:
        low, high = page.x.clamped(layer.low), page.x.clamped(layer.high)
        path = f"M{low:.1f} {y:.1f}H{high:.1f}M{low:.1f} {y - 4:.1f}v8M{high:.1f} {y - 4:.1f}v8"
    yield f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="1.8"/>'


def _bars(page: Page, layer: Bars) -> Iterator[str]:
    fill = "currentColor"
    if layer.pattern:
        fill, pattern = _pattern(page, layer)
        yield pattern
    for bar in layer.bars:
        yield f'<rect {_box(page, layer, bar)} fill="{fill}" stroke="currentColor"{_said(page, bar.tip, "rect")}'


def _pattern(page: Page, layer: Bars) -> tuple[str, str]:
    name = f"hatch-{layer.tone}-{ord(layer.pattern[0])}-{page.width}"
    path = f'<path d="{_PATTERNS[layer.pattern]}" stroke="currentColor" stroke-width="1.4"/>'
    ground = '<rect width="6" height="6" fill="currentColor" opacity="0.18"/>'
    head = f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse">'
    return f"url(#{name})", f"{head}{ground}{path}</pattern>"


def _box(page: Page, layer: Bars, bar: Bar) -> str:
    along, across = (page.x, page.y) if layer.is_lying else (page.y, page.x)
    first, last = sorted((along.clamped(bar.start), along.clamped(bar.end)))
    near, far = sorted(across.at(bar.at + bar.offset + half * bar.width / 2) for half in (-1, 1))
    if layer.is_lying:
        return f'x="{first:.1f}" y="{near:.1f}" width="{last - first:.1f}" height="{far - near:.1f}"'
    return f'x="{near:.1f}" y="{first:.1f}" width="{far - near:.1f}" height="{last - first:.1f}"'


_DRAWERS: dict[type, Callable[..., Iterator[str]]] = {
    Points: _points,
    Line: _line,
    Band: _band,
    Whisker: _whisker,
    Bars: _bars,
}


def _line_labels(page: Page, words: list[Box]) -> Iterator[tuple[Line, str]]:
    """Lines with their labels, each where it covers no mark and no other word; empty where there is no such place."""
    lines = [layer for layer in page.chart.layers if isinstance(layer, Line) and layer.label]
    ways = [(layer, corners) for layer in lines if (corners := _corners(page, layer))]
    for layer, corners in (way for way in ways if way[0] not in page.in_legend):
        angle = _strip(corners)[1]
        strips = [_strip(each) for other, each in ways if other is not layer]
        others = [box for box, turn in strips if abs(turn - angle) < _PARALLEL]
        yield layer, _line_label(page, layer, corners, words, (*page.marks, *others))


def _strip(corners: Sequence[Corner]) -> tuple[Box, float]:
    """The way from the first corner to the last as a narrow box, and its angle in radians."""
    (ax, ay), (bx, by) = corners[0], corners[-1]
    angle = math.atan2(by - ay, bx - ax)
    return _boxed((ax + bx) / 2, (ay + by) / 2, math.hypot(bx - ax, by - ay), _STRIP_PX, angle=angle), angle


def _line_label(page: Page, layer: Line, corners: list[Corner], words: list[Box], avoided: Sequence[Box]) -> str:
    """The label along a line, over it or under it, at the first place that is free.

    Of two lines close to each other the upper one has its label above and the lower one below.
    """
    (ax, ay), (bx, by) = corners[0], corners[-1]
    length, text_px = math.hypot(bx - ax, by - ay), len(layer.label) * _LABEL_PX
    if text_px > length + 8:
        return ""
    angle = math.atan2(by - ay, bx - ax)
    at_end = 1 - text_px / 2 / length - 0.01
    places = [at_end - (2 * at_end - 1) * step / _PLACES for step in range(_PLACES + 1)]
    if not layer.at_end:
        places.sort(key=lambda part: abs(part - 0.3))
    for part, lift in product(places, (-5, 13)):
        x, y = ax + (bx - ax) * part, ay + (by - ay) * part
        up = lift - 4
        box = _boxed(x - up * math.sin(angle), y + up * math.cos(angle), text_px, 12, angle=angle)
        if _claims(page, box, words, avoided):
            turn = f' transform="translate({x:.1f} {y:.1f}) rotate({math.degrees(angle):.1f})" font-size="11"'
            return _text(page, layer.label, 0, lift, tone=layer.tone, more=turn)
    return ""


def _point_labels(page: Page, words: list[Box]) -> Iterator[str]:
    """The names of points next to them; on a narrow picture, and where no place is free, they stay without."""
    layers = [layer for layer in page.chart.layers if isinstance(layer, Points) and page.width >= _NAMES_FROM_PX]
    for point in (point for layer in layers for point in layer.points if point.label):
        x, y = page.x.clamped(point.x), page.y.clamped(point.y)
        text_px = len(point.label) * _LABEL_PX
        for dx, dy, anchor in ((9, 4, "start"), (-9, 4, "end"), (0, -10, "middle"), (0, 19, "middle")):
            middle = x + dx + {"start": text_px / 2, "end": -text_px / 2, "middle": 0.0}[anchor]
            if _claims(page, _boxed(middle, y + dy - 4, text_px, 12), words, page.marks):
                yield _text(page, point.label, x + dx, y + dy, tone="text", anchor=anchor, more=' font-size="11"')
                break


def _boxed(x: float, y: float, width: float, height: float, *, angle: float = 0.0) -> Box:
    """The rectangle around (x, y), turned by `angle` in radians."""
    cos, sin = math.cos(angle), math.sin(angle)
    # From the middle to the end of a side, and to the next one.
    ax, ay, bx, by = cos * width / 2, sin * width / 2, -sin * height / 2, cos * height / 2
    corners = (
        (x - ax - bx, y - ay - by),
        (x + ax - bx, y + ay - by),
        (x + ax + bx, y + ay + by),
        (x - ax + bx, y - ay + by),
    )
    across, along = abs(ax) + abs(bx), abs(ay) + abs(by)
    return Box(corners, left=x - across, right=x + across, top=y - along, bottom=y + along)


def _claims(page: Page, box: Box, words: list[Box], avoided: Sequence[Box]) -> bool:
    """Whether `box` lies in the frame and is free of both; if so, it is one of the `words` from now on."""
    is_inside = page.x.start < box.left and box.right < page.x.end
    is_inside = is_inside and page.y.end - _ABOVE_PX < box.top and box.bottom < page.y.start
    near = filter(box.meets, (*words, *avoided))
    if not is_inside or not all(_are_apart(box.corners, other.corners) for other in near):
        return False
    words.append(box)
    return True


def _are_apart(one: Sequence[Corner], other: Sequence[Corner]) -> bool:
    """Whether a side of either rectangle separates them."""
    for shape in (one, other):
        for (ax, ay), (bx, by) in pairwise(shape[:3]):
            (low, high), (least, most) = (
                (min(spans), max(spans))
                for spans in ([x * (bx - ax) + y * (by - ay) for x, y in each] for each in (one, other))
            )
            if high <= least or most <= low:
                return True
    return False


Entry = Points | Line | Band | Bars


def _legend_entries(chart: Chart) -> dict[str, Entry]:
    """The legend's text for each layer but lines with labels; a single one needs no legend."""
    found: dict[str, Entry] = {}
    for layer in chart.layers:
        if isinstance(layer, Whisker) or (isinstance(layer, Line) and layer.label):
            continue
        said = getattr(layer, "legend", None)
        if text := layer.name if said is None else said:
            found.setdefault(text, layer)
    return found if len(found) > 1 else {}


def series(chart: Chart) -> list[str]:
    """For each layer the legend's text that it goes with; empty where the legend names none.

    Marks and whiskers without a name of their own there go with the first entry of their tone.
    """
    entries = _legend_entries(chart)
    by_tone = {entry.tone: text for text, entry in reversed(entries.items())}
    found = []
    for layer in chart.layers:
        text = getattr(layer, "legend", None) or getattr(layer, "name", "")
        is_nameless = isinstance(layer, Whisker) or (isinstance(layer, Points) and layer.legend == "")
        found.append(text if text in entries else by_tone.get(layer.tone, "") if is_nameless else "")
    return found


def _legend_rows(chart: Chart, width: int, more: Iterable[Line]) -> list[list[tuple[float, str, Entry]]]:
    """The entries with where each begins, row by row."""
    rows: list[list[tuple[float, str, Entry]]] = []
    at = math.inf
    for text, entry in (_legend_entries(chart) | {line.label: line for line in more}).items():
        needed = 28 + len(text) * _CHARACTER_PX + 12
        if at + needed > width:
            rows.append([])
            at = 6.0
        rows[-1].append((at, text, entry))
        at += needed
    return rows


def _legend(page: Page) -> Iterator[str]:
    for number, row in enumerate(_legend_rows(page.chart, page.width, page.in_legend)):
        y = 12 + _LEGEND_ROW_PX * number
        for x, text, entry in row:
            swatch = f"<g {page.tone(entry.tone)}>{_swatch(page, entry, x + 11, y)}</g>"
            said = _text(page, text, x + 27, y + 4, tone="text", anchor="start")
            name = "" if entry in page.in_legend else f' data-series="{escape(text)}"'
            yield f"<g{name}>{swatch}{said}</g>"


def _swatch(page: Page, entry: Entry, x: float, y: float) -> str:
    if isinstance(entry, Points):
        return f'<path d="{_symbol_path(_SYMBOLS[entry.symbol], x, y, min(entry.size, 5))}"{_paint(entry.symbol)}/>'
    if isinstance(entry, Line):
        dash = f' stroke-dasharray="{_DASHES[entry.dash]}"' if entry.dash in _DASHES else ""
        return f'<path d="M{x - 10:.1f} {y}h20" stroke="currentColor" stroke-width="{entry.width:g}"{dash}/>'
    if isinstance(entry, Band):
        return f'<rect x="{x - 9:.1f}" y="{y - 5}" width="18" height="10" fill="currentColor" opacity="0.25"/>'
    fill = _pattern(page, entry)[0] if entry.pattern else "currentColor"
    return f'<rect x="{x - 6:.1f}" y="{y - 6}" width="12" height="12" fill="{fill}" stroke="currentColor"/>'
