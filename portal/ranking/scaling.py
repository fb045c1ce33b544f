"""How a problem scales: the leaders of one kind of machine side by side at its numbers of ranks."""

from dataclasses import dataclass

from evaluator.hardware.profiles import Profile, profiles
from portal.ranking.leaders import Leader, leaders
from problems.schema import Problem


@dataclass(frozen=True, kw_only=True)
class ScalingPoint:
    """One number of ranks: its profile, the leader there, and None where the board is empty."""

    profile: Profile
    leader: Leader | None


@dataclass(frozen=True, kw_only=True)
class Family:
    """The profiles of one kind of machine, multicast on or off, that the problem runs at, fewest ranks first."""

    title: str
    is_ranked_by_speed: bool
    points: tuple[ScalingPoint, ...]

    @property
    def slug(self) -> str:
        """A word for it in the page."""
        return self.points[0].profile.name

    @property
    def measured(self) -> tuple[ScalingPoint, ...]:
        """The points that have a leader."""
        return tuple(point for point in self.points if point.leader is not None)


def families(problem: Problem) -> tuple[Family, ...]:
    """Every kind of machine with an entry, the kinds with most numbers of ranks first."""
    found = leaders(problem=problem.slug)
    grouped: dict[tuple[str, bool], list[Profile]] = {}
    for profile in profiles().values():
        if problem.refuses_world_size(profile.world_size) is None:
            grouped.setdefault((profile.gpu or "CPU", profile.multicast), []).append(profile)
    made = [_family(gpu, group, found, problem.slug) for (gpu, _), group in grouped.items()]
    return tuple(sorted((family for family in made if family.measured), key=lambda family: -len(family.measured)))


def _family(gpu: str, group: list[Profile], found: dict[tuple[str, str], Leader], slug: str) -> Family:
    ordered = sorted(group, key=lambda profile: profile.world_size)
    suffix = "" if ordered[0].multicast or ordered[0].gpu is None else ", multicast off"
    return Family(
        title=f"{gpu}{suffix}" if ordered[0].gpu else "CPU ranks (practice)",
        is_ranked_by_speed=ordered[0].is_ranked_by_speed,
        points=tuple(ScalingPoint(profile=profile, leader=found.get((slug, profile.name))) for profile in ordered),
    )
