"""Which points a sweep measures on a profile."""

from collections.abc import Sequence

from evaluator.contract import Mode, SweepPoint, Verdict, is_faster, is_informative
from evaluator.hardware.profiles import Profile
from problems.spec.schema import Point, Problem


class NoSweep(ValueError):
    """A profile cannot sweep a problem, or not at these points; `remedy` says what can be done."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}: {remedy}")
        self.message, self.remedy = message, remedy


def swept(problem: Problem, profile: Profile, names: Sequence[str] = ()) -> tuple[Point, ...]:
    """The points called `names`, in the order of the axis; without names all of them.

    Raises:
        NoSweep: the profile times nothing, the problem has no axis or does not run there, or a name is not a point.
    """
    if not profile.measures_time:
        raise NoSweep(f"profile {profile.name} times nothing, because all ranks share one GPU", "choose another one")
    points = problem.points(profile.sizes[Mode.SWEEP])
    if not points:
        raise NoSweep(f"problem {problem.slug} has no axis to sweep along", "choose mode benchmark")
    if refusal := problem.refuses(profile.world_size, profile.sizes[Mode.SWEEP]):
        raise NoSweep(f"problem {problem.slug} {refusal}", "choose another profile")
    if unknown := sorted(set(names) - {point.name for point in points}):
        known = ", ".join(point.name for point in points)
        raise NoSweep(f"problem {problem.slug} has no point {', '.join(unknown)} on {profile.name}", f"it has {known}")
    return tuple(point for point in points if not names or point.name in names)


def summary(points: Sequence[SweepPoint]) -> str:
    """What the points of a sweep come to that is nowhere wrong, in words."""
    good = [point for point in points if point.verdict is Verdict.PASSED]
    faster = sum(is_faster(point.low) for point in good)
    noisy = sum(not is_informative(point.low, point.high) for point in good)
    words = f"correct at {len(good)} of {len(points)} points, significantly faster than the reference at {faster}"
    words += f", too noisy to tell at {noisy}" if noisy else ""
    left_out = len(points) - len(good)
    return words + (f"; {left_out} left out, because no rank has the memory for them" if left_out else "")
