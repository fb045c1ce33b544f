"""How a problem scales: the leaders of one kind of machine side by side at its numbers of ranks."""

from dataclasses import dataclass

from evaluator.contract import SCORE_RULE
from evaluator.hardware.profiles import Profile, profiles
from portal.catalog.references import ReferenceRow, reference_row
from portal.ranking.leaders import leaders
from portal.ranking.queries import BoardRow
from problems.spec.schema import Problem


@dataclass(frozen=True, kw_only=True)
class ScalingPoint:
    """One number of ranks: its profile, the leader there (None where the board is empty), and the reference."""

    profile: Profile
    leader: BoardRow | None
    reference: ReferenceRow

    @property
    def is_measured(self) -> bool:
        """Whether anything was measured there by the current rule: an entry, or only the reference."""
        return self.leader is not None or (bool(self.reference.sizes) and self.reference.rule == SCORE_RULE)


@dataclass(frozen=True, kw_only=True)
class Family:
    """The profiles of one kind of machine, multicast on or off, that the problem runs at, fewest ranks first."""

    title: str
    is_ranked_by_speed: bool
    points: tuple[ScalingPoint, ...]

    @property
    def measured(self) -> tuple[ScalingPoint, ...]:
        """The points at which something was measured."""
        return tuple(point for point in self.points if point.is_measured)


def families(problem: Problem) -> tuple[Family, ...]:
    """Every kind of machine with an entry or a measured reference, the kinds with most numbers of ranks first."""
    found = leaders(problem=problem.slug)
    grouped: dict[tuple[str, bool], list[Profile]] = {}
    for profile in profiles().values():
        if profile.measures_time and problem.refuses_world_size(profile.world_size) is None:
            grouped.setdefault((profile.gpu or "CPU", profile.multicast), []).append(profile)
    made = [_family(gpu, group, found, problem) for (gpu, _), group in grouped.items()]
    return tuple(sorted((family for family in made if family.measured), key=lambda family: -len(family.measured)))


def _family(gpu: str, group: list[Profile], found: dict[tuple[str, str], BoardRow], problem: Problem) -> Family:
    ordered = sorted(group, key=lambda profile: profile.world_size)
    points = []
    for profile in ordered:
        leader = found.get((problem.slug, profile.name))
        reference = reference_row(problem, profile=profile.name, beside=leader.sizes if leader else ())
        points.append(ScalingPoint(profile=profile, leader=leader, reference=reference))
    suffix = "" if ordered[0].multicast or ordered[0].gpu is None else ", multicast off"
    return Family(
        title=f"{gpu}{suffix}" if ordered[0].gpu else "CPU ranks (practice)",
        is_ranked_by_speed=ordered[0].is_ranked_by_speed,
        points=tuple(points),
    )
