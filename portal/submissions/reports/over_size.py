"""What pages show of sweeps: times over size, what it costs in bandwidth, and for which sizes an entry is faster."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from evaluator.contract import Mode, SweepPoint, is_faster, is_informative
from evaluator.hardware import profiles
from evaluator.judging.points import NoSweep, swept
from portal.accounts.queries import Viewer
from portal.catalog import rooflines
from portal.catalog.templatetags.pkb import microseconds, rate
from portal.charts.sweeps import LOOKS, Series, over_size
from portal.core.requests import choice
from portal.submissions import access, sweeps
from portal.submissions.models import Evaluation
from portal.submissions.queries import quarantined
from problems import registry
from problems.spec.schema import Problem

TIME, BANDWIDTH = "time", "bandwidth"
FIGURES = ((TIME, "Time"), (BANDWIDTH, "Bus bandwidth"))
_MOST_LOOKED_AT = 50
_UNITS = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"), (1, "B"))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry's sweep, and for which sizes it is faster than the reference, in words."""

    name: str
    evaluation: Evaluation
    points: Mapping[int, SweepPoint]
    sentence: str


def known_sweeps(slug: str, viewer: Viewer) -> list[Evaluation]:
    """The sweeps of a problem's current revision that `viewer` may see, the newest of each author on each profile."""
    visible = access.visible_submissions(viewer).filter(problem=slug, is_attempt=False)
    rows = (
        Evaluation.objects.filter(mode=Mode.SWEEP.value, problem_revision=registry.revision(slug))
        .filter(submission__in=visible.values("pk"))
        .exclude(points={})
        .exclude(submission__in=quarantined().values("submission"))
        .select_related("submission__author")
        .order_by("-queued_at")[:_MOST_LOOKED_AT]
    )
    newest = {(row.submission.author_id, row.profile): row for row in reversed(rows)}
    return [row for row in rows if newest[row.submission.author_id, row.profile] is row]


def over_sizes(query: Mapping[str, str], problem: Problem, profile: str, shown: Sequence[Evaluation]) -> dict[str, Any]:
    """Chart, table and words of the sweeps `shown` on `profile`, the first one's reference beside them; {} of none.

    The address's `y` asks for time or bus bandwidth; raises Refusal (404) for anything else.
    """
    try:
        points = swept(problem, profiles.get(profile))
    except NoSweep:
        return {}
    axis = points[0].axis
    names = {point.value: value_name(point.value, axis.unit) for point in points}
    entries = [_entry(evaluation, names) for evaluation in shown[: len(LOOKS)]]
    every = [point for entry in entries for point in entry.points.values()]
    moved = {point.value: point.bus_bytes for point in every if point.bus_bytes}
    floors = {point.value: point.floor_us for point in every if point.floor_us}
    y = choice(query, "y", dict(FIGURES), opening=TIME)
    by_bandwidth = y == BANDWIDTH and bool(moved)
    first = entries[0].points.values() if entries else ()
    theirs = {point.value: point.reference.median_us for point in first if point.reference is not None}
    shown_moved = moved if by_bandwidth else None
    reference = tuple((value, us, us, us) for value, us in theirs.items())
    figure = over_size(
        [Series(name=each.name, points=tuple(_spans(each.points.values())), moved=shown_moved) for each in entries],
        title=axis.name.capitalize(),
        value_name=names.__getitem__,
        reference=Series(name="reference", points=reference, moved=shown_moved),
        floors=floors,
        levels=rooflines.wire_levels(profiles.get(profile)),
    )

    def text(value: int, us: float | None) -> str:
        return "" if us is None else rate(moved[value] / us * 1e6) if by_bandwidth else microseconds(us)

    rows = [
        {
            "name": name,
            "floor_us": floors.get(value),
            "reference": text(value, theirs.get(value)),
            "cells": [
                (point, text(value, point.submission.median_us if point and point.submission else None))
                for point in (entry.points.get(value) for entry in entries)
            ],
        }
        for value, name in names.items()
    ]
    return {
        "sweep_axis": axis,
        "sweep_figure": figure if theirs else None,
        "sweep_rows": rows,
        "sweep_entries": entries,
        "sweep_y": BANDWIDTH if by_bandwidth else TIME,
        "sweep_ys": FIGURES if moved else (),
        "sweep_measured": len(entries[0].points) if entries else 0,
        "sweep_profile": profiles.get(profile),
        "has_floors": bool(floors),
    }


def _entry(evaluation: Evaluation, names: Mapping[int, str]) -> Entry:
    points = {point.value: point for point in sweeps.points_of(evaluation) if point.value in names}
    return Entry(
        name=evaluation.submission.author.username,
        evaluation=evaluation,
        points=points,
        sentence=crossover(list(points.values()), names),
    )


def _spans(points: Iterable[SweepPoint]) -> Iterator[tuple[int, float, float, float]]:
    """Median, and the interval of the speedup as times: both below the reference's where the whole interval is above 1.

    There is no interval where times were too noisy to tell.
    """
    for point in points:
        if point.submission and point.speedup and point.low and point.high:
            us = point.submission.median_us
            low, high = us * point.speedup / point.high, us * point.speedup / point.low
            yield (point.value, us, low, high) if is_informative(point.low, point.high) else (point.value, us, us, us)


def value_name(value: int, unit: str) -> str:
    """A value of an axis as it is read: `8 MiB`, `16,384 rows`."""
    if unit != "bytes":
        return f"{value:,} {unit}"
    size, name = next(each for each in _UNITS if value >= each[0])
    return f"{value / size:g} {name}"


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
