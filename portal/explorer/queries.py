"""What pages say of problems: the rows of their list in every order, and the times that are known of one of them."""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from evaluator.contract import Mode
from evaluator.hardware.profiles import Profile
from portal.catalog import measurements, references, rooflines
from portal.charts.times import time_axis
from portal.ranking.queries import BoardRow
from portal.runs.figures import geometric_mean
from portal.runs.page_data import ModelResult, best_of_models
from problems.spec.schema import Problem

ProblemRow = dict[str, Any]
"""A `problem` on one profile: its `leader` there, the `result` of models, and what is still to be gained.

`headroom` is time over floor, the geometric mean over the sizes: of the best entry by people, else of the measured
reference; None where neither was timed, or no floor applies. Where an empty collective takes longer than the floor,
it stands for it: few bytes have floors that no machine comes near. `bounds` are what bounds each size. `is_mine` says
whether the reader solved it.
"""
SORTS: Mapping[str, tuple[str, Callable[[ProblemRow], float]]] = {
    "number": ("number", lambda row: row["problem"].number),
    "headroom": ("headroom", lambda row: -(row["headroom"] or 0.0)),
    "entries": ("entries", lambda row: -row["leader"].entries if row["leader"] else 0),
    "models": ("models that solve it", lambda row: -len(row["result"].models) if row["result"] else 0),
    "mine": ("solved by me", lambda row: not row["is_mine"]),
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
        {
            "problem": problem,
            "leader": best.get(problem.slug),
            "result": solving.get(problem.slug),
            "is_mine": problem.slug in mine,
            "headroom": _headroom(points.get(problem.slug, ()), least_us=least_us),
            "bounds": tuple(dict.fromkeys(str(point.work.floor.bound) for point in points.get(problem.slug, ()))),
        }
        for problem in problems
    ]
    return sorted(rows, key=SORTS[sort][1])


def _headroom(points: Sequence[rooflines.Point], *, least_us: float) -> float | None:
    times = [(point.best_us or point.reference_us, max(point.work.floor.us, least_us)) for point in points]
    known = [us / floor_us for us, floor_us in times if us]
    return geometric_mean(known) if len(known) == len(times) else None


def problem_times(problem: Problem, *, profile: Profile, best: BoardRow | None) -> dict[str, Any]:
    """What is known on `profile`: the lines of the table in the order of the axis, and the axis, None without times.

    Each of a line's `columns` is the time in microseconds at one of the profile's sizes, and how many times the floor
    that is; None where unknown. `run`, or `submission` and `evaluation`, name the page that shows more, if there is one
    that everybody may open. `best` is the first entry of the board. At most two queries, for the models.
    """
    sizes = tuple(str(size) for size in profile.sizes[Mode.RANKED])
    works = rooflines.works(profile.name) if profile.peaks is not None else ()
    floors = {work.size: work.floor.us for work in works if work.problem.slug == problem.slug}

    def line(kind: str, name: str, note: str, times: dict[str, float], **pages: uuid.UUID | None) -> dict[str, Any]:
        known = ((times.get(size), floors.get(size)) for size in sizes)
        columns = tuple((us, us / floor if us and floor else None) for us, floor in known)
        return {"kind": kind, "name": name, "note": note, "columns": columns, **pages}

    lines = [line("floor", "Floor", "cost model", floors)] if floors else []
    if best is not None:
        kind = "best entry" if profile.is_ranked_by_speed else "first correct entry"
        times = {size.size: size.time_us for size in best.sizes}
        pages = {"submission": best.submission_id, "evaluation": best.evaluation_id} if best.is_source_public else {}
        lines.append(line(kind, best.author, best.backend, times, **pages))
    for run, sizes_of_run in best_of_models(problem.slug, profile=profile.name):
        times = {size.size: size.time_us for size in sizes_of_run}
        lines.append(line("best of a model", str(run.model), run.backend, times, run=run.pk))
    reference = references.reference_row(problem, profile=profile.name, beside=best.sizes if best is not None else ())
    if reference.sizes:
        times = {size.size: size.time_us for size in reference.sizes}
        lines.append(line("reference", "Reference", reference.source, times))
    marks = [(each["kind"], each["name"], [us for us, _ in each["columns"]]) for each in lines]
    # An entry may have been timed at other sizes than the profile's: then there is no mark to draw.
    is_timed = any(us is not None for kind, _, known in marks if kind != "floor" for us in known)
    figure = time_axis(sizes, marks) if is_timed else None
    return {"sizes": sizes, "lines": lines, "figure": figure}
