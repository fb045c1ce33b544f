"""The reference as a row of a board: its times, and its share of the roofline."""

from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.contract import SCORE_RULE
from portal.catalog import measurements, rooflines
from portal.catalog.size_times import SizeTime, mean_utilisation
from problems.spec.schema import Problem


@dataclass(frozen=True, kw_only=True)
class ReferenceTime:
    """The reference's median time of a call at one size, and the floor there; None where no floor applies."""

    size: str
    time_us: float
    floor_us: float | None

    @property
    def utilisation(self) -> float | None:
        """Floor over time."""
        return self.floor_us / self.time_us if self.floor_us is not None else None


@dataclass(frozen=True, kw_only=True)
class ReferenceRow:
    """The reference as a row of a board; `source` says where its times are from, `rule` how they were taken."""

    sizes: tuple[ReferenceTime, ...]
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
        times = [ReferenceTime(size=at.size, time_us=at.baseline_us, floor_us=at.floor_us) for at in beside]
        source, rule = "side by side with the first entry", SCORE_RULE
    else:
        points = _measured(problem, profile)
        times = [
            ReferenceTime(size=at.work.size, time_us=at.reference_us, floor_us=at.work.floor.us)
            for at in points
            if at.reference_us is not None
        ]
        table = measurements.baselines(profile)
        source, rule = (
            (points[0].reference_source, table.rule) if points and table else ("not measured here", SCORE_RULE)
        )
    return ReferenceRow(sizes=tuple(time for time in times if size in (None, time.size)), source=source, rule=rule)


def _measured(problem: Problem, profile: str) -> list[rooflines.Point]:
    """The points of the profile's roofline at which its baselines have a time of the reference."""
    if profile not in {each.name for each in rooflines.gpu_profiles()}:
        return []
    points = rooflines.points_of(problem, profile=profile, best=None)
    return [point for point in points if point.reference_us is not None]
