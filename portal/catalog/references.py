"""The reference as a row of a board: its times, and its share of the roofline."""

from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.contract import SCORE_RULE
from portal.catalog import measurements, rooflines
from portal.catalog.size_times import SizeTime, mean_utilisation
from problems.spec.schema import Problem


@dataclass(frozen=True, kw_only=True)
class ReferenceRow:
    """The reference as a row of a board; `source` says where its times are from, `rule` how they were taken.

    It is its own baseline: its speedup is 1.
    """

    sizes: tuple[SizeTime, ...]
    source: str
    rule: int = SCORE_RULE

    @property
    def utilisation(self) -> float | None:
        return mean_utilisation(self.sizes)


def reference_row(
    problem: Problem, *, profile: str, beside: Sequence[SizeTime] = (), size: str | None = None
) -> ReferenceRow:
    """The reference on a profile, at one size or at all that rank; without times where nobody has measured it there.

    Times taken side by side with an entry (`beside`) go before the profile's baselines.
    """
    if beside:
        known = [(at.size, at.baseline_us, at.floor_us) for at in beside]
        source, rule = "side by side with the first entry", SCORE_RULE
    else:
        points = _measured(problem, profile)
        known = [(at.work.size, at.reference_us, at.work.floor.us) for at in points if at.reference_us is not None]
        table = measurements.baselines(profile)
        source, rule = (
            (points[0].reference_source, table.rule) if points and table else ("not measured here", SCORE_RULE)
        )
    times = (
        SizeTime(size=name, time_us=us, baseline_us=us, floor_us=floor_us, score=1.0, low=1.0, high=1.0)
        for name, us, floor_us in known
        if size in (None, name)
    )
    return ReferenceRow(sizes=tuple(times), source=source, rule=rule)


def _measured(problem: Problem, profile: str) -> list[rooflines.Point]:
    """The points of the profile's roofline at which its baselines have a time of the reference."""
    if profile not in {each.name for each in rooflines.gpu_profiles()}:
        return []
    points = rooflines.points_of(problem, profile=profile, best=None)
    return [point for point in points if point.reference_us is not None]
