"""What there is to choose: problems with their work per rank, operators' switches, and profiles that judge them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from evaluator.contract import SCORE_RULE, Mode
from evaluator.hardware import profiles
from portal.catalog.measurements import baselines, public_references
from portal.catalog.models import ProblemSwitch
from portal.core.errors import NotFound, Refusal, check_choice, choice
from portal.nodes.queries import online_slots
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


def get_profile(name: str) -> profiles.Profile:
    """The profile called `name`; raises Refusal (422)."""
    return profiles.get(check_choice("profile", name, profiles.profiles()))


def check_backend(profile: profiles.Profile, backend: str) -> None:
    """Refuse (422) a backend that `profile` does not judge."""
    if backend not in profile.backends:
        judged = ", ".join(profile.backends)
        elsewhere = any(backend in each.backends for each in profiles.profiles().values())
        remedy = f"Choose one of {judged}{f', or a profile that judges {backend}' if elsewhere else ''}."
        raise Refusal("backend", backend, f"{profile.name} judges only {judged}.", remedy)


def check_world_size(problem: Problem, profile: profiles.Profile, sizes: Iterable[str]) -> None:
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


def judging_profiles(problem: Problem) -> list[profiles.Profile]:
    """The profiles that judge `problem` at their ranked sizes, practice boards first."""
    return [
        profile
        for profile in profiles.profiles().values()
        if problem.refuses(profile.world_size, profile.sizes[Mode.RANKED]) is None
    ]


COOKIE = "hardware"
_LASTS_S = 180 * 24 * 3600


def last_choice(request: HttpRequest, names: Iterable[str]) -> str:
    """The profile that this browser chose last, on whichever page; empty where `names` does not have it."""
    chosen = request.COOKIES.get(COOKIE, "")
    return chosen if chosen in names else ""


def remember(response: HttpResponse, profile: str, *, is_secure: bool) -> None:
    """Have the browser keep `profile` as its last choice."""
    response.set_cookie(COOKIE, profile, max_age=_LASTS_S, httponly=True, samesite="Lax", secure=is_secure)


def chosen_profile(
    request: HttpRequest, names: Iterable[str], *, entries: Mapping[str, int], message: str, problem: str = ""
) -> profiles.Profile:
    """The profile that the address asks for, else `opening_profile`.

    Raises:
        Refusal: it asks for one that is none of `names` (404), with `message`.
    """
    opening = opening_profile(names, entries=entries, problem=problem, last=last_choice(request, names))
    return profiles.profiles()[choice(request.GET, "profile", names, opening=opening, message=message)]


def opening_profile(names: Iterable[str], *, entries: Mapping[str, int], problem: str = "", last: str = "") -> str:
    """The profile of `names` that a page opens with.

    It is the reader's `last` choice if there is one. Of the profiles with `entries` it is the one with most, those
    ranked by speed first. Without any it is where the reference was measured best, else one that is online, else the
    first.

    Args:
        names: the profiles that the page could show, at least one.
        entries: how many entries, boards or runs each profile has.
        problem: where the page is about one problem, its reference has to be measured.
        last: what `last_choice` says.
    """
    known = list(names)
    if last:
        return last
    used = [name for name in known if entries.get(name)]
    if used:
        return max(used, key=lambda name: (profiles.get(name).is_ranked_by_speed, entries[name]))
    measured = _best_measured(known, problem=problem)
    if measured:
        return measured
    online = set(online_slots().values_list("profile", flat=True))
    return next((name for name in known if name in online), known[0])


def _best_measured(names: Iterable[str], *, problem: str) -> str:
    """The measured profile with the fewest ranks, the last of equals; empty if none was measured.

    Where a `problem` is named, only profiles with its times count. Our baselines are preferred to public references,
    and those by the current rule to earlier ones.
    """
    ours, present, public = [], [], []
    for place, name in enumerate(names):
        table, theirs = baselines(name), public_references(name)
        if table is not None and (not problem or problem in table.baselines):
            ours.append((-profiles.get(name).world_size, place, name))
            present += ours[-1:] * (table.rule == SCORE_RULE)
        if theirs is not None and (not problem or problem in theirs.median_us):
            public.append((0, place, name))
    return max(present or ours or public, default=(0, 0, ""))[-1]
