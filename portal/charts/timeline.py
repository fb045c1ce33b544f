"""What ran when on every rank, as one picture: rows of streams and threads on one scale, drawn by the server.

A mark carries what it says as its title. The marks lie in an inner picture whose coordinates are nanoseconds, so that a
script zooms by choosing another part of it, without drawing anything again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from portal.charts.chart import Axis, Ruler, Scale, Unit, ticks

_ROW_PX, _GAP_PX, _TOP_PX, _BOTTOM_PX = 18, 10, 8, 26
_LEFT_PX, _RIGHT_PX = 150, 12
_NARROW_PX = 500


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One stretch of a row, in nanoseconds from the beginning of the picture."""

    start_ns: int
    ns: int
    tone: str
    title: str
    is_thin: bool = False


@dataclass(frozen=True, kw_only=True)
class Row:
    """One stream or thread; `label` is to its left, short on phones."""

    label: str
    marks: Sequence[Mark]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows that belong together, under a heading."""

    heading: str
    rows: Sequence[Row]


def pictures(groups: Sequence[Group], *, length_ns: int, label: str) -> tuple[str, str]:
    """The rows of `groups` on one scale from 0 to `length_ns`, for wide places and for narrow ones.

    Both have the accessible name `label`. The narrow one refers to the marks of the wide one, so that a page carries
    them once.
    """
    marks = f'<g id="recording-marks" fill="currentColor">{"".join(_marks(groups))}</g>'
    return (
        _svg(groups, marks, length_ns=length_ns, width=1040, label=label),
        _svg(groups, '<use href="#recording-marks"/>', length_ns=length_ns, width=360, label=label),
    )


def _svg(groups: Sequence[Group], marks: str, *, length_ns: int, width: int, label: str) -> str:
    left = _LEFT_PX if width > _NARROW_PX else 84
    height = _TOP_PX + sum(_group_px(group) for group in groups) + _BOTTOM_PX
    inner_px, plot_px = width - left - _RIGHT_PX, height - _TOP_PX - _BOTTOM_PX
    axis = Axis(title="", unit=Unit.MICROSECONDS, scale=Scale.LINEAR, low=0.0, high=length_ns / 1000)
    ruler = Ruler(axis=axis, low=0.0, high=length_ns / 1000, start=left, end=width - _RIGHT_PX)
    plot = f'x="{left}" y="{_TOP_PX}" width="{inner_px}" height="{plot_px}" viewBox="0 0 {max(1, length_ns)} {plot_px}"'
    parts = [
        f'<svg viewBox="0 0 {width} {height}" font-size="12" role="img" aria-label="{escape(label)}">',
        *_grid(ruler, bottom=height - _BOTTOM_PX, width=width),
        *_labels(groups, left=left, is_narrow=width <= _NARROW_PX),
        f'<svg class="recording-plot" {plot} preserveAspectRatio="none">{marks}</svg></svg>',
    ]
    return "".join(parts)


def _group_px(group: Group) -> int:
    return _ROW_PX * (1 + len(group.rows)) + _GAP_PX


def _row_offsets(groups: Iterable[Group]) -> Iterator[tuple[int, Group, Row | None]]:
    """Every heading (None) and row with its upper edge."""
    at = 0
    for group in groups:
        yield at, group, None
        for number, row in enumerate(group.rows):
            yield at + _ROW_PX * (1 + number), group, row
        at += _group_px(group)


def _grid(ruler: Ruler, *, bottom: int, width: int) -> Iterator[str]:
    for value, text in ticks(ruler, most=7 if width > _NARROW_PX else 4):
        at = ruler.at(value)
        yield (
            f'<path class="recording-tick t-border" d="M{at:.1f} {_TOP_PX}V{bottom}" stroke="currentColor"/>'
            f'<text class="recording-tick t-text-muted" x="{at:.1f}" y="{bottom + 17}" text-anchor="middle" '
            f'fill="currentColor">{escape(text)}</text>'
        )
    yield f'<path d="M{ruler.start:.1f} {bottom}H{ruler.end:.1f}" stroke="currentColor" class="t-border-strong"/>'


def _labels(groups: Sequence[Group], *, left: int, is_narrow: bool) -> Iterator[str]:
    for top, group, row in _row_offsets(groups):
        y = _TOP_PX + top + 13
        if row is None:
            look = 'font-weight="600" fill="currentColor" class="t-text"'
            yield f'<text x="4" y="{y}" {look}>{escape(group.heading)}</text>'
        else:
            text = row.label.removeprefix("host ") if is_narrow else row.label
            most = 12 if is_narrow else 20
            yield (
                f'<text x="{left - 8}" y="{y}" text-anchor="end" fill="currentColor" class="t-text-muted">'
                f"{escape(text[:most])}</text>"
            )


def _marks(groups: Sequence[Group]) -> Iterator[str]:
    """The marks in their order, those of one tone that follow one another in one group: there are hundreds."""
    placed = ((top, mark) for top, _, row in _row_offsets(groups) if row is not None for mark in row.marks)
    for tone, marks in groupby(placed, key=lambda each: each[1].tone):
        yield f'<g class="t-{tone}">'
        for top, mark in marks:
            inset, height = (5, _ROW_PX - 11) if mark.is_thin else (2, _ROW_PX - 4)
            path = f"M{mark.start_ns} {top + inset}h{mark.ns}v{height}h-{mark.ns}z"
            yield f'<path d="{path}"><title>{escape(mark.title)}</title></path>'
        yield "</g>"


def bar(shares: Sequence[tuple[float, str, str]]) -> str:
    """Shares (value, tone, title) side by side over the full width; figures beside say the same to screen readers."""
    total = sum(value for value, _, _ in shares)
    at, parts = 0.0, []
    for value, tone, title in shares:
        width = 1000 * value / total if total else 0.0
        if width:
            place = f'x="{at:.1f}" y="0" width="{width:.1f}" height="10"'
            parts.append(f'<rect {place} fill="currentColor" class="t-{tone}"><title>{escape(title)}</title></rect>')
        at += width
    look = 'class="split-bar" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true"'
    return f"<svg {look}>{''.join(parts)}</svg>"
