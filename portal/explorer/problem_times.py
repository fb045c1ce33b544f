"""The times that are known of one problem on one profile: floor, best entry, best of each model, reference."""

import uuid
from typing import Any

from evaluator.contract import Mode
from evaluator.hardware.profiles import Profile
from portal.catalog import rooflines
from portal.catalog.references import reference_row
from portal.charts.times import time_axis
from portal.ranking.queries import BoardRow
from portal.runs.solved import best_of_models
from problems.spec.schema import Problem


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
    reference = reference_row(problem, profile=profile.name, beside=best.sizes if best is not None else ())
    if reference.sizes:
        times = {size.size: size.time_us for size in reference.sizes}
        lines.append(line("reference", "Reference", reference.source, times))
    marks = [(each["kind"], each["name"], [us for us, _ in each["columns"]]) for each in lines]
    # An entry may have been timed at other sizes than the profile's: then there is no mark to draw.
    is_timed = any(us is not None for kind, _, known in marks if kind != "floor" for us in known)
    figure = time_axis(sizes, marks) if is_timed else None
    return {"sizes": sizes, "lines": lines, "figure": figure}
