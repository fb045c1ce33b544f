"""What pages show of sweeps: times over size, what it costs in bandwidth, and for which sizes an entry is faster."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from evaluator.contract import Baseline, Mode, SweepPoint, is_faster, is_informative
from evaluator.hardware import profiles
from evaluator.judging.bus_bandwidth import bus_bytes
from evaluator.judging.points import NoSweep, swept
from portal.accounts.models import Viewer
from portal.catalog import measurements, rooflines
from portal.catalog.templatetags.pkb import microseconds, rate
from portal.charts.chart import Axis, Scale, Unit
from portal.charts.chart import Point as Mark
from portal.charts.times import LOOKS, REFERENCE, Series, over_size, size_name
from portal.core import speedups
from portal.core.errors import choice
from portal.submissions import access, queries, sweeps
from portal.submissions.models import Evaluation
from problems import registry
from problems.spec.schema import Point, Problem

BASELINES = registry.DATA / "sweeps"
"""What `python -m evaluator baseline --sweep` writes."""
TIME, BANDWIDTH = "time", "bandwidth"
FIGURES = ((TIME, "Time"), (BANDWIDTH, "Bus bandwidth"))
_MOST_LOOKED_AT = 50


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry's sweep by value, and for which sizes it is faster than the reference, in words."""

    name: str
    evaluation: Evaluation
    points: Mapping[int, SweepPoint]
    sentence: str

    @property
    def times(self) -> dict[int, float]:
        """Microseconds by value."""
        return {value: point.submission.median_us for value, point in self.points.items() if point.submission}


def known_sweeps(slug: str, viewer: Viewer) -> list[Evaluation]:
    """The sweeps of a problem's current revision that `viewer` may see, the newest of each author on each profile."""
    visible = access.visible_submissions(viewer).filter(problem=slug, is_attempt=False)
    rows = (
        Evaluation.objects.filter(mode=Mode.SWEEP.value, problem_revision=registry.revision(slug))
        .filter(submission__in=visible.values("pk"))
        .exclude(points={})
        .exclude(submission__in=queries.quarantined().values("submission"))
        .select_related("submission__author")
        .order_by("-queued_at")[:_MOST_LOOKED_AT]
    )
    newest = {(row.submission.author_id, row.profile): row for row in reversed(rows)}
    return [row for row in rows if newest[row.submission.author_id, row.profile] is row]


def with_baselines(problem: Problem) -> set[str]:
    """The profiles on which the reference was measured alone at points of the problem's axis."""
    tables = {name: measurements.baselines(name, folder=BASELINES) for name in profiles.profiles()}
    return {name for name, table in tables.items() if table is not None and problem.slug in table.baselines}


def _baselines(problem: Problem, profile: str, points: Iterable[Point]) -> dict[int, Baseline]:
    """Those of the problem's current revision, by value."""
    found = {
        point.value: measurements.baseline(problem.slug, profile=profile, size=point.name, folder=BASELINES)
        for point in points
    }
    return {value: baseline for value, baseline in found.items() if baseline is not None}


def over_sizes(query: Mapping[str, str], problem: Problem, profile: str, shown: Sequence[Evaluation]) -> dict[str, Any]:
    """Chart, table and words of the sweeps `shown` on `profile`; the reference is that beside the first, or a baseline.

    Empty where there are no points. The address's `y` asks for time or bus bandwidth.

    Raises:
        Refusal: it asks for anything else (404).
    """
    try:
        points = swept(problem, profiles.get(profile))
    except NoSweep:
        return {}
    axis = points[0].axis
    names = {point.value: size_name(point.value, axis.unit) for point in points}
    entries = [_entry(evaluation, names) for evaluation in shown[: len(LOOKS)]]
    every = [point for entry in entries for point in entry.points.values()]
    alone, table = _baselines(problem, profile, points), measurements.baselines(profile, folder=BASELINES)
    floors = {value: each.floor_us for value, each in alone.items() if each.floor_us}
    floors |= {point.value: point.floor_us for point in every if point.floor_us}
    ranks = profiles.get(profile).world_size
    moved = {value: moves for value in names if (moves := bus_bytes(problem, value, ranks))}
    by_bandwidth = choice(query, "y", dict(FIGURES), opening=TIME) == BANDWIDTH and bool(moved)

    def height(value: int, us: float) -> float:
        return moved[value] / us / 1e3 if by_bandwidth else us

    def text(value: int, us: float | None) -> str:
        return "" if us is None else rate(1e9 * height(value, us)) if by_bandwidth else microseconds(us)

    def series(name: str, times: Mapping[int, float], spans: Iterable[tuple[int, float, float]] = ()) -> Series:
        marks = (
            Mark(x=value, y=height(value, us), tip=f"{name}, {names[value]}\n{text(value, us)}")
            for value, us in times.items()
        )
        ends = ((value, height(value, low), height(value, high)) for value, low, high in spans)
        return Series(name=name, points=tuple(marks), intervals=tuple(ends))

    beside = [point for entry in entries[:1] for point in entry.points.values()]
    theirs = {value: each.median_us for value, each in alone.items()}
    theirs |= {point.value: point.reference.median_us for point in beside if point.reference}
    drawn = [series(entry.name, entry.times, _intervals(entry)) for entry in entries]
    ticks = tuple((float(value), name) for value, name in names.items())
    figure = over_size(
        [series(REFERENCE, theirs), *drawn],
        x=Axis(title=axis.name.capitalize(), scale=Scale.LOG, names=ticks),
        y=rooflines.BANDWIDTHS if by_bandwidth else _TIMES,
        floor=() if by_bandwidth else sorted(floors.items()),
        levels=rooflines.wire_levels(profiles.get(profile)) if by_bandwidth and theirs else (),
    )
    rows = []
    for value, name in names.items():
        cells = [
            (point := entry.points.get(value), text(value, entry.times.get(value)), _speedup(point, profile))
            for entry in entries
        ]
        rows.append((name, floors.get(value), text(value, theirs.get(value)), cells))
    return {
        "sweep_axis": axis,
        "sweep_figure": figure if theirs else None,
        "sweep_rows": rows,
        "sweep_entries": entries,
        "sweep_y": BANDWIDTH if by_bandwidth else TIME,
        "sweep_ys": FIGURES if moved else (),
        "sweep_profile": profiles.get(profile),
        "sweep_measured_at": datetime.fromisoformat(table.measured_at) if table and not beside else None,
        "has_floors": bool(floors) and not by_bandwidth,
    }


def _speedup(point: SweepPoint | None, profile: str) -> str:
    """A point's speedup as boards say it, with its interval; empty where nothing was timed."""
    if point is None or point.speedup is None or point.low is None or point.high is None:
        return ""
    words = speedups.in_words(point.speedup, point.low, point.high, profile=profile)
    ends = speedups.interval(point.low, point.high)
    return f"{words} ({ends})" if is_informative(point.low, point.high) else words


_TIMES = Axis(title="Time of a call", scale=Scale.LOG, unit=Unit.MICROSECONDS)


def _entry(evaluation: Evaluation, names: Mapping[int, str]) -> Entry:
    points = {point.value: point for point in sweeps.points_of(evaluation) if point.value in names}
    name = evaluation.submission.author.username
    return Entry(name=name, evaluation=evaluation, points=points, sentence=crossover(list(points.values()), names))


def _intervals(entry: Entry) -> Iterator[tuple[int, float, float]]:
    """The interval of the speedup as times: below the reference's where it is above 1. None of what is too noisy."""
    for point in entry.points.values():
        if point.submission and point.speedup and point.low and point.high and is_informative(point.low, point.high):
            us = point.submission.median_us * point.speedup
            yield point.value, us / point.high, us / point.low


def crossover(points: Sequence[SweepPoint], names: Mapping[int, str]) -> str:
    """For which measured sizes the whole interval is above 1 or below it, in words; empty where nothing was timed."""
    timed = [point for point in points if point.speedup is not None]
    runs = [(word, [names[point.value] for point in run]) for word, run in groupby(timed, key=_word)]
    if len(runs) == 1:
        return f"{runs[0][0]} at every size measured"
    ends = list(names.values())
    parts = []
    for word, sizes in runs:
        where = f"from {sizes[0]} to {sizes[-1]}"
        if len(sizes) == 1:
            where = f"at {sizes[0]}"
        elif sizes[0] == ends[0]:
            where = f"up to {sizes[-1]}"
        elif sizes[-1] == ends[-1]:
            where = f"from {sizes[0]} on"
        parts.append(f"{word} {where}")
    return ", ".join(parts)


def _word(point: SweepPoint) -> str:
    if not is_informative(point.low, point.high):
        return "too noisy to tell"
    if is_faster(point.low):
        return "faster"
    return "slower" if point.high is not None and point.high < 1 else "not distinguishable"
