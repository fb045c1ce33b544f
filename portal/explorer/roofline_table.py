"""What the roofline explorer shows: a view read from the query string, its rows in order, and the way back to it."""

import csv
import io
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, Self

from django.http import QueryDict
from django.utils.safestring import SafeString

from evaluator.judging.floors import Bound
from portal.catalog.rooflines import RANKED_SIZES, UNKNOWN, Axis, Point, gpu_profiles
from portal.catalog.templatetags.pkb import at, microseconds, percent, speedup
from portal.charts.rooflines import Window
from portal.core.errors import NotFound, choice
from problems.spec.taxonomy import Block

ALL_SIZES = "all"
_FARTHEST = 30.0
_MUCH_FASTER = 0.8
"""A reference that takes less than this share of its time on inputs that it has met has that time beside it."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of the table that one may sort by; rows without a value go last in either direction."""

    name: str
    label: str
    value: Callable[[Point], Any]
    is_number: bool = True


COLUMNS = (
    Column(name="number", label="No.", value=lambda point: point.work.problem.number),
    Column(name="title", label="Problem", value=lambda point: point.work.problem.title.lower(), is_number=False),
    Column(name="block", label="Block", value=lambda point: point.work.problem.block.label, is_number=False),
    Column(name="size", label="Size", value=lambda point: point.work.size, is_number=False),
    Column(name="wire", label="FLOP / wire byte", value=lambda point: point.work.x(Axis.WIRE) or None),
    Column(name="memory", label="FLOP / memory byte", value=lambda point: point.work.x(Axis.MEMORY) or None),
    Column(name="floor", label="Floor", value=lambda point: point.work.floor.us),
    Column(name="public", label="Public reference", value=lambda point: point.public_us),
    Column(name="reference", label="Our reference", value=lambda point: point.reference_us),
    Column(name="best", label="Best entry", value=lambda point: point.best_us),
    Column(name="speedup", label="Speedup", value=lambda point: point.speedup),
)


_BY_NAME = {column.name: column for column in COLUMNS}


@dataclass(frozen=True, kw_only=True)
class View:
    """One way to look at the rooflines: the parameters of the page's address."""

    profile: str
    size: str
    block: str
    axis: str
    sort: str
    order: str
    window: str

    @classmethod
    def from_query(cls, query: QueryDict, *, opening: str) -> Self:
        """The view that an address asks for; what it leaves out is as the page opens, on the profile `opening`.

        Raises:
            Refusal: a parameter has a value that does not exist (404), with the known ones.
        """
        known: dict[str, tuple[Iterable[str], str]] = {
            "profile": ([profile.name for profile in gpu_profiles()], opening),
            "size": ([*RANKED_SIZES, ALL_SIZES], "base"),
            "block": (["", *Block], ""),
            "axis": (list(Axis), Axis.WIRE.value),
            "sort": (list(_BY_NAME), "number"),
            "order": (["ascending", "descending"], "ascending"),
        }
        chosen = {name: choice(query, name, values, opening=first) for name, (values, first) in known.items()}
        window = str(query.get("window", ""))
        parse_window(window)
        return cls(**chosen, window=window)


def parse_window(text: str) -> Window | None:
    """The part of the plane that `text` asks for, as four powers of ten; None where it is empty.

    Raises:
        Refusal: it is anything else (404).
    """
    if not text:
        return None
    try:
        left, right, bottom, top = (float(part) for part in text.split(","))
    except ValueError:
        raise _no_window(text) from None
    window = (left, right, bottom, top)
    if not all(math.isfinite(value) and abs(value) <= _FARTHEST for value in window) or left >= right or bottom >= top:
        raise _no_window(text)
    return window


def _no_window(text: str) -> NotFound:
    remedy = "Give left, right, bottom and top as powers of ten, such as 0,4,-2,3, or leave it out to see everything."
    return NotFound("window", text, f"There is no window {text[:40]!r}.", remedy)


def narrowed(points: Iterable[Point], view: View) -> list[Point]:
    """The points of the view's size and block, in its order."""
    chosen = [
        point
        for point in points
        if view.size in (ALL_SIZES, point.work.size) and view.block in ("", point.work.problem.block)
    ]
    value = _BY_NAME[view.sort].value
    known = [point for point in chosen if value(point) is not None]
    unknown = [point for point in chosen if value(point) is None]
    return sorted(known, key=value, reverse=view.order == "descending") + unknown


def table_rows(points: Iterable[Point], *, profile: str, has_public: bool) -> SafeString:
    """The rows of the table as HTML; with a column for public references where the profile has any."""
    rows = (f"<tr>{point.work.cells}{_times(point, profile, has_public=has_public)}</tr>" for point in points)
    return SafeString("\n".join(rows))


def _times(point: Point, profile: str, *, has_public: bool) -> str:
    """What is known of the times of a row: a page has hundreds of these cells, so that each escapes its words alone."""
    shares, entry = point.shares, point.entry
    public = _cell("public", _time(point.public_us, shares["public"])) if has_public else ""
    met = ""
    if point.met_us and point.reference_us and point.met_us < _MUCH_FASTER * point.reference_us:
        met = f'<span class="sub">{escape(microseconds(point.met_us))} on inputs it has met</span>'
    reference = _cell("reference", _time(point.reference_us, shares["reference"]) + met)
    best, look = '<span class="muted">open</span>', " on-desk"
    if entry is not None:
        board = f"{at('ranking:board', point.work.problem.slug)}?profile={escape(profile)}"
        whose = f', <a href="{board}">{escape(entry.author)}</a>'
        best, look = _time(point.best_us, shares["best"], whose), ""
    faster = speedup(point.at_size, profile) if point.at_size is not None else ""
    return f'{public}{reference}{_cell("best", best, look)}<td class="num lead">{faster}</td>'


def _cell(label: str, content: str, look: str = "") -> str:
    return f'<td class="num{look}" data-label="{label}">{content}</td>'


def _time(us: float | None, share: float | None, whose: str = "") -> str:
    """A time with its share of the roofline below it, and whose it is."""
    if not us:
        return UNKNOWN
    return f'{escape(microseconds(us))}<span class="sub">{escape(percent(share))}{whose}</span>'


_CSV_COLUMNS: tuple[tuple[str, Callable[[Point], Any]], ...] = (
    ("number", lambda point: point.work.problem.number),
    ("slug", lambda point: point.work.problem.slug),
    ("title", lambda point: point.work.problem.title),
    ("block", lambda point: point.work.problem.block),
    ("size", lambda point: point.work.size),
    ("flops_per_rank", lambda point: point.work.flops),
    ("memory_bytes", lambda point: point.work.cost.memory_bytes),
    ("wire_bytes", lambda point: point.work.cost.wire_bytes),
    ("arithmetic_us", lambda point: point.work.floor.terms_us[Bound.ARITHMETIC]),
    ("memory_us", lambda point: point.work.floor.terms_us[Bound.MEMORY]),
    ("wire_us", lambda point: point.work.floor.terms_us[Bound.WIRE]),
    ("floor_us", lambda point: point.work.floor.us),
    ("without_overlap_us", lambda point: point.work.floor.sum_us),
    ("bound", lambda point: point.work.floor.bound),
    ("public_reference_us", lambda point: point.public_us),
    ("reference_us", lambda point: point.reference_us),
    ("reference_met_us", lambda point: point.met_us),
    ("reference_source", lambda point: point.reference_source),
    ("best_us", lambda point: point.best_us),
    ("best_author", lambda point: point.entry.author if point.entry else ""),
    ("best_backend", lambda point: point.entry.backend if point.entry else ""),
)


def csv_text(points: Iterable[Point], *, profile: str) -> str:
    """The points as CSV with one header line, times in microseconds; unknown values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["profile", *(name for name, _ in _CSV_COLUMNS)])
    for point in points:
        values = (read(point) for _, read in _CSV_COLUMNS)
        writer.writerow([profile, *("" if value is None else value for value in values)])
    return text.getvalue()
