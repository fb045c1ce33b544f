"""The times that are known of one problem on one profile: floor, best entry, best of each model, reference."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluator.contract import Mode
from evaluator.hardware.profiles import Profile
from portal.catalog import rooflines
from portal.catalog.references import reference_row
from portal.charts.chart import Chart
from portal.charts.times import time_axis
from portal.ranking.queries import BoardRow
from portal.runs.solved import best_of_models
from problems.spec.schema import Problem

_KINDS = {
    "floor": ("text", "tick"),
    "best entry": ("success", "star"),
    "first correct entry": ("success", "star"),
    "best of a model": ("warning", "diamond"),
    "reference": ("accent", "ring"),
}


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Something with a time per size, in microseconds in the order of the profile's sizes; None where unknown.

    `run` and `submission` name the page that shows more, if there is one that everybody may open.
    """

    kind: str
    name: str
    note: str
    times_us: tuple[float | None, ...]
    over_floor: tuple[float | None, ...]
    run: uuid.UUID | None = None
    submission: uuid.UUID | None = None

    @property
    def columns(self) -> Iterable[tuple[float | None, float | None]]:
        """Per size the time and how many times the floor it is."""
        return zip(self.times_us, self.over_floor, strict=True)


@dataclass(frozen=True, kw_only=True)
class ProblemTimes:
    """The lines of the table in the order of the axis, and the axis; None where nothing is known."""

    sizes: tuple[str, ...]
    lines: tuple[Timed, ...]
    figure: Chart | None


def problem_times(problem: Problem, *, profile: Profile, best: BoardRow | None) -> ProblemTimes:
    """What is known on `profile`; `best` is the first entry of its board. At most two queries, for the models."""
    sizes = tuple(str(size) for size in profile.sizes[Mode.RANKED])
    works = rooflines.works(profile.name) if profile.peaks is not None else ()
    floors = {work.size: work.floor.us for work in works if work.problem.slug == problem.slug}

    def line(kind: str, name: str, note: str, times: dict[str, float], **pages: uuid.UUID | None) -> Timed:
        found = tuple(times.get(size) for size in sizes)
        over = tuple(
            us / floors[size] if us and floors.get(size) else None for size, us in zip(sizes, found, strict=True)
        )
        return Timed(kind=kind, name=name, note=note, times_us=found, over_floor=over, **pages)

    lines = [line("floor", "Floor", "cost model", floors)] if floors else []
    if best is not None:
        kind = "best entry" if profile.is_ranked_by_speed else "first correct entry"
        times, page = {size.size: size.time_us for size in best.sizes}, best.submission_id
        lines.append(line(kind, best.author, best.backend, times, submission=page if best.is_source_public else None))
    for result in best_of_models(problem.slug, profile=profile.name):
        times = {size.size: size.time_us for size in result.sizes}
        lines.append(line("best of a model", str(result.run.model), result.run.backend, times, run=result.run.pk))
    reference = reference_row(problem, profile=profile.name, beside=best.sizes if best is not None else ())
    if reference.sizes:
        times = {size.size: size.time_us for size in reference.sizes}
        lines.append(line("reference", "Reference", reference.source, times))
    return ProblemTimes(sizes=sizes, lines=tuple(lines), figure=_figure(sizes, lines))


def _figure(sizes: Sequence[str], lines: Sequence[Timed]) -> Chart | None:
    if not any(line.kind != "floor" for line in lines):
        return None
    return time_axis(
        sizes,
        [
            (
                kind,
                *_KINDS[kind],
                [
                    (at, us, line.name)
                    for line in lines
                    if line.kind == kind
                    for at, us in enumerate(line.times_us)
                    if us is not None
                ],
            )
            for kind in _KINDS
        ],
    )
