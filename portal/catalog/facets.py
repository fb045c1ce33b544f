"""Finding problems by what they are: facets with counts, and search over titles, summaries and origins."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from problems.schema import Problem
from problems.taxonomy import Block, Communication, Domain, Parallelism, Stage


@dataclass(frozen=True, kw_only=True)
class Facet:
    """One way to divide the problems: its GET parameter, its heading, and the values that a problem has."""

    name: str
    label: str
    kind: type[StrEnum]
    values: Callable[[Problem], Sequence[StrEnum]]


@dataclass(frozen=True, kw_only=True)
class Option:
    """One value of a facet and how many of the otherwise chosen problems have it."""

    value: str
    label: str
    count: int
    is_chosen: bool


FACETS = (
    Facet(name="block", label="Block", kind=Block, values=lambda problem: (problem.block,)),
    Facet(name="parallelism", label="Parallelism", kind=Parallelism, values=lambda problem: problem.parallelism),
    Facet(
        name="communication", label="Communication", kind=Communication, values=lambda problem: problem.communication
    ),
    Facet(name="stage", label="Stage", kind=Stage, values=lambda problem: problem.stage),
    Facet(name="domain", label="Domain", kind=Domain, values=lambda problem: (problem.domain,)),
)


def _matches(problem: Problem, facet: Facet, wanted: str) -> bool:
    return not wanted or wanted in facet.values(problem)


def _contains(problem: Problem, words: Iterable[str]) -> bool:
    labels = " ".join(str(getattr(value, "label", value)) for facet in FACETS for value in facet.values(problem))
    text = f"{problem.number} {problem.slug} {problem.title} {problem.summary} {problem.origin or ''} {labels}".lower()
    return all(word in text for word in words)


def find(problems: Iterable[Problem], *, chosen: dict[str, str], search: str = "") -> list[Problem]:
    """The problems that have every chosen facet value and every word of `search`, in their order."""
    words = search.lower().split()
    return [
        problem
        for problem in problems
        if _contains(problem, words) and all(_matches(problem, facet, chosen.get(facet.name, "")) for facet in FACETS)
    ]


def options(problems: Sequence[Problem], facet: Facet, *, chosen: dict[str, str], search: str = "") -> list[Option]:
    """The values of `facet` that occur, counted among the problems that the other facets and the search leave."""
    others = {name: value for name, value in chosen.items() if name != facet.name}
    left = find(problems, chosen=others, search=search)
    counted = []
    for value in facet.kind:
        count = sum(value in facet.values(problem) for problem in left)
        is_chosen = chosen.get(facet.name) == value
        if count or is_chosen:
            label = str(getattr(value, "label", value))
            counted.append(Option(value=str(value), label=label, count=count, is_chosen=is_chosen))
    return counted
