"""The points of a sweep, from what was measured at each; and a point refused that no rank has the memory for."""

import os
from collections.abc import Sequence
from typing import Any

from evaluator.contract import Finding, SizeRecord, SweepPoint, Verdict
from evaluator.host.job import Job
from evaluator.host.machine import nvml
from evaluator.judging import timing, verdicts
from evaluator.judging.bus_bandwidth import bus_bytes
from evaluator.judging.points import summary
from problems.spec.memory import held_bytes

ENDS_A_POINT = frozenset(
    {
        Verdict.WRONG_RESULT,
        Verdict.WRONG_SHAPE,
        Verdict.NOT_FINITE,
        Verdict.STALE_OUTPUT,
        Verdict.INPUT_MUTATED,
        Verdict.TIMING_INCONSISTENT,
        Verdict.BELOW_FLOOR,
    }
)
"""After one of these the ranks are as before, so other points are measured; any other verdict ends the sweep."""


def refused(job: Job, name: str) -> SweepPoint | None:
    """The point called `name` where a rank's inputs and outputs alone are more than its memory; None where they fit."""
    held = held_bytes(job.problem, job.problem.dims(name, job.profile.world_size))
    message = without_room(name, held, _room_bytes(job))
    return None if message is None else _point(job, name, verdict=Verdict.UNSUPPORTED, message=message)


def without_room(name: str, held_bytes: int, room_bytes: int) -> str | None:
    """Why a point is not begun, with both figures; None where a rank has the room."""
    if held_bytes <= room_bytes:
        return None
    return (
        f"a rank would hold {held_bytes / 1e9:.2f} GB of inputs and outputs at {name}, and has {room_bytes / 1e9:.2f} "
        "GB of memory; choose smaller points"
    )


def _room_bytes(job: Job) -> int:
    """The memory of the smallest GPU; on CPU ranks an equal share of what their sandbox may use."""
    if states := nvml.read(job.resources.gpus):
        return min(state.total_bytes for state in states)
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(machine, job.settings.memory_bytes) // job.profile.world_size


def measured(job: Job, record: SizeRecord) -> tuple[SweepPoint, list[Finding]]:
    """A point from its record, and the findings on its times, which decide its verdict."""
    found, against = timing.conclude([record], job.profile.timing_rules(), without=job.settings.without)
    [at_size] = found.sizes
    decided = verdicts.decide(against) if against else None
    point = _point(
        job,
        record.size,
        verdict=Verdict.PASSED if decided is None else decided.verdict,
        message="" if decided is None else decided.message,
        reference=at_size.baseline,
        submission=at_size.candidate,
        speedup=at_size.score,
        low=at_size.low,
        high=at_size.high,
        floor_us=at_size.floor_us,
    )
    return point, against


def failed(job: Job, name: str, findings: Sequence[Finding]) -> SweepPoint:
    """A point at which the submission was found wrong."""
    decided = verdicts.decide(list(findings))
    return _point(job, name, verdict=decided.verdict, message=decided.message)


def concluded(points: Sequence[SweepPoint], *, known: Sequence[Finding]) -> list[Finding]:
    """The finding on a sweep that came to its end: what it passed, where no finding is `known` against it."""
    if known:
        return []
    if all(point.verdict is Verdict.UNSUPPORTED for point in points):
        return [Finding(verdict=Verdict.UNSUPPORTED, message=point.message, size=point.size) for point in points]
    return [Finding(verdict=Verdict.PASSED, message=summary(points))]


def _point(job: Job, name: str, **found: Any) -> SweepPoint:
    value = job.problem.point(name).value
    return SweepPoint(size=name, value=value, bus_bytes=bus_bytes(job.problem, value, job.profile.world_size), **found)
