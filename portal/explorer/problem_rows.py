"""The rows of the list of problems, and the orders in which readers may have them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluator.hardware.profiles import Profile
from portal.catalog import measurements, rooflines
from portal.ranking.queries import BoardRow
from portal.runs.figures import geometric_mean
from portal.runs.solved import ModelResult
from problems.spec.schema import Problem


@dataclass(frozen=True, kw_only=True)
class ProblemRow:
    """A problem on one profile: who leads there, and what is still to be gained.

    `headroom` is time over floor, the geometric mean over the sizes: of the best entry by people, else of the measured
    reference; None where neither was timed, or no floor applies. Where an empty collective takes longer than the floor,
    it stands for it: few bytes have floors that no machine comes near. `bounds` are what bounds each size.
    """

    problem: Problem
    leader: BoardRow | None
    result: ModelResult | None
    is_mine: bool
    headroom: float | None = None
    bounds: tuple[str, ...] = ()


SORTS: Mapping[str, tuple[str, Callable[[ProblemRow], float]]] = {
    "number": ("number", lambda row: row.problem.number),
    "headroom": ("headroom", lambda row: -(row.headroom or 0.0)),
    "entries": ("entries", lambda row: -row.leader.entries if row.leader else 0),
    "models": ("models that solve it", lambda row: -len(row.result.models) if row.result else 0),
    "mine": ("solved by me", lambda row: not row.is_mine),
}
"""What each order is called, and the key that puts what there is most of first; equals stay in the order of numbers."""


def problem_rows(
    problems: Iterable[Problem],
    *,
    profile: Profile,
    best: Mapping[str, BoardRow],
    solving: Mapping[str, ModelResult],
    mine: frozenset[str],
    sort: str,
) -> list[ProblemRow]:
    """A row for each of `problems` in the order `sort`; `best` and `solving` hold what is known by slug."""
    measured = measurements.ceilings(profile.name)
    least_us = measured.empty_collective_us if measured is not None else 0.0
    points: dict[str, list[rooflines.Point]] = {}
    for point in rooflines.points(profile.name, best) if profile.peaks is not None else ():
        points.setdefault(point.work.problem.slug, []).append(point)
    rows = [
        ProblemRow(
            problem=problem,
            leader=best.get(problem.slug),
            result=solving.get(problem.slug),
            is_mine=problem.slug in mine,
            headroom=_headroom(points.get(problem.slug, ()), least_us=least_us),
            bounds=tuple(dict.fromkeys(str(point.work.floor.bound) for point in points.get(problem.slug, ()))),
        )
        for problem in problems
    ]
    return sorted(rows, key=SORTS[sort][1])


def _headroom(points: Sequence[rooflines.Point], *, least_us: float) -> float | None:
    times = [(point.best_us or point.reference_us, max(point.work.floor.us, least_us)) for point in points]
    known = [us / floor_us for us, floor_us in times if us]
    return geometric_mean(known) if len(known) == len(times) else None
