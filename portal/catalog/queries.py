"""What there is to choose: problems with their work per rank, operators' switches, and profiles that judge them."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import QuerySet

from evaluator.contract import Mode
from evaluator.hardware import profiles
from evaluator.hardware.profiles import Profile
from portal.catalog.models import ProblemSwitch
from portal.core.errors import NotFound, Refusal, check_choice
from problems import registry
from problems.spec.schema import Cost, Dims, Problem, SizeName


def switch(slug: str) -> ProblemSwitch:
    """The switches of the problem `slug`; an unsaved open one where the operator never touched it."""
    return ProblemSwitch.objects.filter(slug=slug).first() or ProblemSwitch(slug=slug)


def paused_slugs() -> QuerySet[ProblemSwitch, str]:
    """The slugs of the problems whose submissions wait until the operator resumes judging; part of larger queries."""
    return paused_problems().values_list("slug", flat=True)


def paused_problems() -> QuerySet[ProblemSwitch]:
    """The switches of those problems, in no order."""
    return ProblemSwitch.objects.filter(is_paused=True).order_by()


def get_problem(slug: str) -> Problem:
    """The problem called `slug`.

    Raises:
        Refusal: there is none (404); the message suggests near names.
    """
    try:
        return registry.get(slug)
    except registry.UnknownProblem as error:
        message = f"{str(error)[:1].upper()}{str(error)[1:]}.".replace("?.", "?")
        raise NotFound("problem", slug, message, "Choose a problem from the problem list.") from error


def get_profile(name: str) -> Profile:
    """The profile called `name`; raises Refusal (422)."""
    return profiles.get(check_choice("profile", name, profiles.profiles()))


def check_backend(profile: Profile, backend: str) -> None:
    """Refuse (422) a backend that `profile` does not judge."""
    if backend not in profile.backends:
        judged = ", ".join(profile.backends)
        remedy = f"Choose one of {judged}, or a profile that judges {backend}."
        raise Refusal("backend", backend, f"{profile.name} judges only {judged}.", remedy)


def check_world_size(problem: Problem, profile: Profile, sizes: Iterable[str]) -> None:
    """Refuse (422) a profile on which `problem` does not run at one of `sizes`."""
    reason = problem.refuses(profile.world_size, sizes)
    if reason is not None:
        message = f"{problem.title} does not run on {profile.world_size} ranks: it {reason}."
        remedy = f"Choose a profile with a world size that it allows ({problem.world_size_rule})."
        raise Refusal("profile", profile.name, message, remedy)


ELEMENT_BYTES = 2
"""Bytes per element of a ranked evaluation's dtype, bfloat16."""


@dataclass(frozen=True, kw_only=True)
class SizeRow:
    """One size at one world size: dimensions and the least work of each rank."""

    name: str
    system: str
    world_size: int
    dims: Dims
    cost: Cost

    @property
    def flops(self) -> float:
        """Operations per rank, all kinds of arithmetic together."""
        return sum(self.cost.flops.values())


def size_rows(problem: Problem, *, world_size: int) -> list[SizeRow]:
    """Every size of `problem` at `world_size` ranks; empty where the problem refuses that number of ranks."""
    if problem.refuses_world_size(world_size) is not None:
        return []
    rows = []
    for name in SizeName:
        dims = problem.dims(name, world_size)
        cost = problem.cost(dims, world_size, ELEMENT_BYTES)
        system = problem.sizes[name].system
        rows.append(SizeRow(name=name.value, system=system, world_size=world_size, dims=dims, cost=cost))
    return rows


def judging_profiles(problem: Problem) -> list[Profile]:
    """The profiles that judge `problem` at their ranked sizes, practice boards first."""
    return [
        profile
        for profile in profiles.profiles().values()
        if problem.refuses(profile.world_size, profile.sizes[Mode.RANKED]) is None
    ]
