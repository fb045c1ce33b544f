"""Every problem and size on a GPU profile with its floor and its measured times, and the charts of them."""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from html import escape
from typing import Any

from django.utils.safestring import SafeString

from evaluator.contract import SCORE_RULE, is_faster
from evaluator.hardware import profiles
from evaluator.judging.floors import Floor, floor
from portal.catalog import measurements, queries
from portal.catalog.size_times import SizeTime
from portal.catalog.templatetags.pkb import at, compact, microseconds, percent
from portal.catalog.templatetags.pkb import flops as flops_text
from portal.charts import rooflines as charts
from portal.charts.chart import Axis as Axes
from portal.charts.chart import Chart, Points, Scale, number
from portal.charts.chart import Point as Mark
from portal.charts.times import Series, over_size
from portal.core.speedups import factor
from problems import registry
from problems.spec.schema import Cost, Problem, SizeName
from problems.spec.taxonomy import BLOCK_GROUPS, BlockGroup

UNKNOWN = SafeString('<span class="muted">none</span>')
"""What a cell of a table says where there is no number."""
RANKED_SIZES = (SizeName.BASE, SizeName.LARGE)


class Axis(StrEnum):
    WIRE = "wire"
    MEMORY = "memory"
    TRAFFIC = "traffic"

    @property
    def label(self) -> str:
        return _AXIS_TEXTS[self][0]

    @property
    def titles(self) -> tuple[str, str]:
        return _AXIS_TEXTS[self][1:]


_AXIS_TEXTS = {
    Axis.WIRE: ("FLOP per wire byte", "FLOP per byte on the wire", "Achieved FLOP/s per GPU"),
    Axis.MEMORY: ("FLOP per memory byte", "FLOP per byte of device memory", "Achieved FLOP/s per GPU"),
    Axis.TRAFFIC: ("Bytes on the wire", "Minimum bytes on the wire per rank", "Achieved bytes/s on the wire per GPU"),
}


@dataclass(frozen=True, kw_only=True)
class Work:
    """The least work of one call of a problem at one size on one profile."""

    problem: Problem
    size: str
    cost: Cost
    floor: Floor

    @property
    def flops(self) -> float:
        """Operations per rank, all kinds of arithmetic together."""
        return sum(self.cost.flops.values())

    def x(self, axis: Axis) -> float:
        """The coordinate of this work on `axis`; 0 if it cannot be plotted there."""
        if axis is Axis.TRAFFIC:
            return self.cost.wire_bytes
        moved = self.cost.wire_bytes if axis is Axis.WIRE else self.cost.memory_bytes
        return self.flops / moved if moved else 0.0

    @property
    def intensities(self) -> tuple[float, float]:
        """Operations per byte on the wire and per byte of device memory; 0 where there is none of either."""
        return self.x(Axis.WIRE), self.x(Axis.MEMORY)

    @cached_property
    def cells(self) -> SafeString:
        """The cells of a table that say what the work is: made once, as nothing in them depends on entries.

        No template writes them, nor the others of a row: on a profile's first page that took longer than its charts.
        """
        problem = self.problem
        page, title, block = at("explorer:problem", problem.slug), escape(problem.title), escape(problem.block.label)
        moved = "".join(
            f'<td class="num on-desk">{escape(compact(value)) if value else UNKNOWN}</td>' for value in self.intensities
        )
        least = f'{escape(microseconds(self.floor.us))}<span class="sub">{escape(self.floor.bound)}</span>'
        return SafeString(
            f'<td class="num muted on-desk">{problem.number:02d}</td>'
            f'<th scope="row" class="main title"><a href="{page}">{title}</a></th><td class="on-desk">{block}</td>'
            f'<td>{escape(self.size)}</td>{moved}<td class="num" data-label="floor">{least}</td>'
        )

    def y(self, axis: Axis, us: float) -> float:
        """What a call of `us` microseconds achieves per second: bytes on the axis of bytes, operations elsewhere."""
        return (self.cost.wire_bytes if axis is Axis.TRAFFIC else self.flops) / us * 1e6


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry with its times by size; where its source is public, a chart leads to its submission."""

    author: str
    backend: str
    sizes: tuple[SizeTime, ...]
    submission_id: uuid.UUID
    evaluation_id: uuid.UUID
    is_source_public: bool


@dataclass(frozen=True, kw_only=True)
class Point:
    """Work with the times that are known of it, in microseconds.

    `reference_us` is our reference's: taken side by side with the best entry, else the profile's baseline.
    `met_us` is that baseline's time on the same inputs again and again, where libraries know every shape.
    `public_us` is the public reference's on its own inputs and is never mixed with ours.
    """

    work: Work
    reference_us: float | None = None
    reference_source: str = ""
    met_us: float | None = None
    public_us: float | None = None
    best_us: float | None = None
    entry: Entry | None = None

    @property
    def shares(self) -> dict[str, float | None]:
        """The shares of the roofline, floor over time, of `reference`, `public` and `best`; None without a time."""
        times = {"reference": self.reference_us, "public": self.public_us, "best": self.best_us}
        return {name: self.work.floor.us / us if us else None for name, us in times.items()}

    @property
    def speedup(self) -> float | None:
        """That of the best entry at this size, as its boards have it."""
        return self.at_size.score if self.at_size is not None else None

    @property
    def at_size(self) -> SizeTime | None:
        """The best entry's speedup at this size with its interval."""
        return _time_at(self.entry, self.work.size)


def gpu_profiles() -> list[profiles.Profile]:
    return [profile for profile in profiles.profiles().values() if profile.peaks is not None]


@cache
def works(profile_name: str) -> tuple[Work, ...]:
    """Every problem that runs on the profile at its ranked sizes, by number.

    Raises:
        ValueError: the profile has no peaks, so that nothing bounds a time there.
    """
    profile = profiles.get(profile_name)
    if profile.peaks is None:
        raise ValueError(f"{profile_name} has no roofline")
    measured = measurements.ceilings(profile_name)
    latency_us = measured.empty_collective_us if measured else None
    found = []
    for problem in registry.problems():
        for size in RANKED_SIZES:
            if problem.refuses(profile.world_size, (size,)) is None:
                cost = problem.cost(problem.dims(size, profile.world_size), profile.world_size, queries.ELEMENT_BYTES)
                bounded = floor(cost, profile.peaks, latency_us=latency_us)
                found.append(Work(problem=problem, size=size.value, cost=cost, floor=bounded))
    return tuple(found)


def points_of(problem: Problem, *, profile: str, best: Entry | None) -> list[Point]:
    """The ranked sizes of one problem on a profile; empty where it does not run there."""
    return [point(work, profile=profile, entry=best) for work in works(profile) if work.problem.slug == problem.slug]


def points(profile_name: str, best: Mapping[str, Entry]) -> list[Point]:
    """Every work of the profile with its times; `best` holds the first entry of each board by slug."""
    return [point(work, profile=profile_name, entry=best.get(work.problem.slug)) for work in works(profile_name)]


def point(work: Work, *, profile: str, entry: Entry | None) -> Point:
    """`work` with what is known of its times on `profile`; `entry` is the best one, if any."""
    slug = work.problem.slug
    timing = _time_at(entry, work.size)
    table = measurements.baselines(profile)
    baseline = measurements.baseline(slug, profile=profile, size=work.size)
    if timing is not None:
        reference_us: float | None = timing.baseline_us
        source = "side by side with the best entry"
    elif baseline is not None and table is not None:
        reference_us = baseline.median_us
        rule = "" if table.rule == SCORE_RULE else ", by the earlier rule"
        source = f"baseline of {table.measured_at[:10]}{rule}"
    else:
        reference_us, source = None, ""
    return Point(
        work=work,
        reference_us=reference_us,
        reference_source=source,
        met_us=None if baseline is None else baseline.met_us,
        public_us=measurements.public_reference_us(slug, profile=profile, size=work.size),
        best_us=timing.time_us if timing else None,
        entry=entry if timing else None,
    )


def _time_at(entry: Entry | None, size: str) -> SizeTime | None:
    return next((time for time in entry.sizes if time.size == size), None) if entry else None


def ceilings(profile: profiles.Profile, axis: Axis) -> list[charts.Ceiling]:
    """The datasheet's ceilings of `axis`, and the measured ones where some are stored."""
    if profile.peaks is None:
        return []
    if axis is Axis.TRAFFIC:
        levels = wire_levels(profile)
        return [
            charts.Ceiling(name=name, level=1e9 * at, dash=dash)
            for (name, at), dash in zip(levels, _DASHES, strict=False)
        ]
    peaks, tensor, vector = profile.peaks, profile.peaks.bf16_flops, profile.peaks.fp32_flops
    measured = measurements.ceilings(profile.name)
    if axis is Axis.MEMORY:
        rate, name = peaks.memory_bytes_s, f"memory {peaks.memory_bytes_s / 1e12:.3g} TB/s"
        slopes = [measured.memory_bytes_s] if measured else []
        reached = [(f"memory {each / 1e12:.3g} TB/s", each) for each in slopes]
    else:
        rate, name = peaks.wire_bytes_s, f"wire {peaks.wire_bytes_s / 1e9:.0f} GB/s"
        reached = _measured_wire(profile)
    found = [
        charts.Ceiling(name=f"{name} (datasheet)", level=tensor, rate=rate),
        charts.Ceiling(name=f"bf16 {tensor / 1e12:.0f} TFLOP/s (datasheet)", level=tensor, start=tensor / rate),
        charts.Ceiling(
            name=f"fp32 {vector / 1e12:.0f} TFLOP/s (datasheet)", level=vector, start=vector / rate, dash="dash"
        ),
        *(charts.Ceiling(name=f"{what} (measured)", level=tensor, rate=each, dash="dot") for what, each in reached),
    ]
    if measured and (flops := measured.arithmetic_flops.get("bfloat16")) is not None:
        name = f"bf16 {flops / 1e12:.0f} TFLOP/s (measured)"
        found.append(charts.Ceiling(name=name, level=flops, start=flops / rate, dash="dot"))
    return found


_DASHES = ("solid", "dot")
"""Of the datasheet's level and of the measured one."""


def _measured_wire(profile: profiles.Profile) -> list[tuple[str, float]]:
    """The slowest copy between two GPUs of this profile, else what was stored with the public references."""
    measured = measurements.ceilings(profile.name)
    pairs = [pair.bytes_s for pair in measured.pairs] if measured else []
    table = measurements.public_references(profile.name)
    reached = min(pairs) if pairs else table.ceilings.get("peer_copy_bytes_s") if table else None
    return [(f"peer copy {reached / 1e9:.0f} GB/s", reached)] if reached else []


def reached(profile: profiles.Profile) -> dict[str, Any] | None:
    """What the hardware of `profile` reached in simple programs, as the explorer shows it; None where nobody measured.

    `sizes` has a row per message size: its bytes, and (microseconds, bus bytes a second) per collective of `names`,
    None where it was not measured.
    """
    found = measurements.ceilings(profile.name)
    if found is None:
        return None
    names = tuple(dict.fromkeys(rate.name for rate in found.collectives))
    rates = {(rate.name, rate.message_bytes): (rate.median_us, rate.bus_bytes_s) for rate in found.collectives}
    sizes = sorted({size for _, size in rates})
    pairs = [pair.bytes_s for pair in found.pairs]
    return {
        "ceilings": found,
        "names": names,
        "sizes": [(size, [rates.get((name, size)) for name in names]) for size in sizes],
        "slowest_pair": min(pairs, default=None),
        "fastest_pair": max(pairs, default=None),
    }


def collectives_figure(profile: profiles.Profile, found: Mapping[str, Any]) -> Chart | None:
    """Collectives over message sizes below the wire's rates; None where no collective was measured."""
    series = [
        Series(
            name=(title := name.replace("_", "-")),
            points=tuple(
                Mark(
                    x=size,
                    y=rates[1] / 1e9,
                    tip=f"{title}, {number(size)}B\n{number(rates[1])}B/s, {number(rates[0])} µs",
                )
                for size, row in found["sizes"]
                if (rates := row[place]) is not None
            ),
        )
        for place, name in enumerate(found["names"])
    ]
    levels = wire_levels(profile)
    x = Axes(title="Bytes of a message", scale=Scale.LOG)
    return over_size(series, x=x, y=BANDWIDTHS, levels=levels, is_wide=False) if series and levels else None


BANDWIDTHS = Axes(title="Bus bandwidth, GB/s per rank", scale=Scale.LOG)


def wire_levels(profile: profiles.Profile) -> list[tuple[str, float]]:
    """What bounds bus bandwidths: a name and GB/s; empty where the profile has no links."""
    if profile.peaks is None:
        return []
    wire = profile.peaks.wire_bytes_s
    measured = [(f"{name} (measured)", rate / 1e9) for name, rate in _measured_wire(profile)]
    return [(f"wire {wire / 1e9:.0f} GB/s one way (datasheet)", wire / 1e9), *measured]


NAMED_BEST = 5
"""How many of the entries with the largest speedups are named on the chart."""
_TONES = {
    BlockGroup.PRIMITIVE: "accent",
    BlockGroup.TRANSFORMER: "success",
    BlockGroup.TRAINING: "code-keyword",
    BlockGroup.SCIENCE: "code-type",
    BlockGroup.DATA: "warning",
    BlockGroup.VISION: "danger",
}
_GROUPS = {block: group for group, blocks in BLOCK_GROUPS.items() for block in blocks}


def explorer_figure(
    chosen: Sequence[Point], *, profile: profiles.Profile, axis: Axis, window: charts.Window | None
) -> Chart:
    """References as rings and best entries as dots, in the colour of their group of blocks, under the ceilings.

    The entries with the largest speedups are named; public references are small diamonds.
    """
    placed = [item for item in chosen if item.work.x(axis) > 0]
    named = _named_best(placed)

    def mark(item: Point, us: float | None, what: str, *, label: str = "") -> Mark | None:
        page = at("explorer:problem", item.work.problem.slug)
        return _at(item.work, axis, us, what, href=page, label=label) if us else None

    references = {id(item): mark(item, item.reference_us, "our reference") for item in placed}
    bests = {
        id(item): mark(
            item,
            item.best_us,
            f"best entry: {item.entry.author}, {item.entry.backend}" if item.entry else "",
            label=named.get(id(item), ""),
        )
        for item in placed
    }
    joins = [
        (reference, best)
        for item in placed
        if (reference := references[id(item)]) is not None and (best := bests[id(item)]) is not None
    ]
    public = [mark(item, item.public_us, "public reference, public inputs") for item in placed]
    series = [_series("public reference, public inputs", "text-faint", "diamond-ring", public, size=3)]
    series += _by_group("our reference", "ring", placed, references, size=4)
    series += _by_group("best entry", "dot", placed, bests, size=5)
    return charts.roofline(series, ceilings(profile, axis), titles=axis.titles, joins=joins, window=window)


def _named_best(placed: Iterable[Point]) -> dict[int, str]:
    """The points of the entries with the largest speedups, with their labels."""
    with_speedup = [(at, item) for item in placed if (at := item.at_size) is not None and is_faster(at.low)]
    best = sorted(with_speedup, key=lambda pair: pair[0].score, reverse=True)[:NAMED_BEST]
    return {
        id(item): f"{item.work.problem.title} {factor(at.score, at.low, at.high)} at {item.work.size}"
        for at, item in best
    }


def _by_group(
    what: str, symbol: str, placed: Sequence[Point], marks: Mapping[int, Mark | None], *, size: float
) -> list[Points]:
    """One series per group of blocks; the symbol shows the kind, the colour the group."""
    return [
        _series(
            f"{what}: {group.label.lower()}",
            _TONES[group],
            symbol,
            (marks[id(item)] for item in placed if _GROUPS[item.work.problem.block] is group),
            size=size,
            legend=group.label if symbol == "ring" else "",
        )
        for group in BlockGroup
    ]


def problem_figure(chosen: Sequence[Point], entries: Sequence[Entry], *, profile: profiles.Profile) -> Chart:
    """One problem at its sizes: floors, reference, public reference and the entries of its board.

    Problems that compute nothing are plotted by their bytes on the wire, all others by FLOP per byte there; entries
    whose source is public open their submission.
    """
    axis = problem_axis(chosen)
    by_size = {item.work.size: item.work for item in chosen}
    pages = [
        f"{at('submissions:detail', each.submission_id)}?evaluation={each.evaluation_id}"
        if each.is_source_public
        else ""
        for each in entries
    ]
    entered = [
        _at(by_size[timing.size], axis, timing.time_us, f"{entry.author} ({entry.backend})", href=page)
        for entry, page in zip(entries, pages, strict=True)
        for timing in entry.sizes
        if timing.size in by_size
    ]

    def marks(what: str, time_of: Callable[[Point], float | None]) -> list[Mark]:
        times = ((item.work, time_of(item)) for item in chosen)
        return [_at(work, axis, us, what, href="") for work, us in times if us]

    public = "public reference, public inputs"
    series = [
        _series("floor (cost model)", "text", "dash", marks("floor", lambda item: item.work.floor.us)),
        _series(public, "warning", "diamond-ring", marks(public, lambda item: item.public_us)),
        _series("our reference", "accent", "ring", marks("our reference", lambda item: item.reference_us)),
        _series("entries", "success", "star", entered),
    ]
    return charts.roofline(series, ceilings(profile, axis), titles=axis.titles, height=420)


def problem_axis(chosen: Iterable[Point]) -> Axis:
    """The first axis on which every size can be plotted."""
    for axis in Axis:
        if all(item.work.x(axis) > 0 for item in chosen):
            return axis
    return Axis.MEMORY


def _at(work: Work, axis: Axis, us: float, what: str, *, href: str, label: str = "") -> Mark:
    share = f", {percent(work.floor.us / us)} of the roofline" if us > work.floor.us else ""
    return Mark(
        x=work.x(axis),
        y=work.y(axis, us),
        tip=f"{work.problem.number:02d} {work.problem.title}, {work.size}\n{what}: {microseconds(us)}{share}\n"
        f"{flops_text(work.flops)} per rank, bound by {work.floor.bound}",
        href=href,
        label=label,
    )


def _series(
    name: str,
    tone: str,
    symbol: str,
    marks: Iterable[Mark | None],
    *,
    size: float = 4.5,
    legend: str | None = None,
) -> Points:
    present = tuple(mark for mark in marks if mark is not None and mark.y > 0)
    return Points(name=name, tone=tone, symbol=symbol, points=present, size=size, legend=legend)


HALF = 0.5
_EDGES = (0.001, 0.01, 0.03, 0.1, 0.3, HALF, 1.0)
BINS = ("below 0.1 %", "0.1 to 1 %", "1 to 3 %", "3 to 10 %", "10 to 30 %", "30 to 50 %", "50 to 100 %", "above")
"""Bins of utilisation; the last one holds times below the floor, which only other inputs than ours can reach."""


def distribution_bars(chosen: Sequence[Point]) -> list[charts.Kind]:
    """How many problems fall into each bin, per kind of time that is known."""
    kinds = (
        ("public reference, public inputs", "warning", "/", "public"),
        ("our reference", "accent", "", "reference"),
        ("best entry", "success", "x", "best"),
    )
    bars: list[charts.Kind] = []
    for name, tone, pattern, whose in kinds:
        if known := [share for item in chosen if (share := item.shares[whose]) is not None]:
            counts = [0] * len(BINS)
            for share in known:
                counts[sum(share >= edge for edge in _EDGES)] += 1
            bars.append((name, tone, pattern, counts))
    return bars
