"""Finding problems by what they are: facets with counts, search over texts, and pictures of their communication."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import msgspec

from problems import registry
from problems.spec.categories import LOOKS, Category, SourceFamily, category, source_family
from problems.spec.schema import Problem
from problems.spec.taxonomy import Block, Communication, Domain, Parallelism, Stage

NONE = "none"
"""The value of a facet where a problem has none: no parallelism, no named origin."""


@dataclass(frozen=True, kw_only=True)
class Facet:
    """One way to divide the problems: its GET parameter, its heading, and the values that a problem has.

    `labels` holds the values in their order with what people read; where it is empty, a value is its own label and
    the order is that of the alphabet.
    """

    name: str
    label: str
    values: Callable[[Problem], Sequence[str]]
    labels: dict[str, str]

    def label_of(self, value: str) -> str:
        """What people read for `value`."""
        return self.labels.get(value, "None named" if value == NONE else value)


_ORIGIN_ENDS = re.compile(r" ?\(|, | / | and | after | style ")


@cache
def _project(origin: str | None) -> str:
    """The project that a problem comes from, without what its origin adds about the part; NONE where none is named."""
    return NONE if origin is None else _ORIGIN_ENDS.split(origin, maxsplit=1)[0].removeprefix("NVIDIA ")


def _kernel(problem: Problem) -> str:
    look = LOOKS.get(problem.slug)
    return "unsought" if look is None else "known" if look.found else "unknown"


def _labels(kind: type[StrEnum]) -> dict[str, str]:
    return {str(value): str(getattr(value, "label", value)) for value in kind}


FACETS = (
    Facet(name="block", label="Block", labels=_labels(Block), values=lambda problem: (problem.block,)),
    Facet(
        name="parallelism",
        label="Parallelism",
        labels=_labels(Parallelism) | {NONE: "None"},
        values=lambda problem: problem.parallelism or (NONE,),
    ),
    Facet(
        name="communication",
        label="Communication",
        labels=_labels(Communication),
        values=lambda problem: problem.communication,
    ),
    Facet(name="stage", label="Stage", labels=_labels(Stage), values=lambda problem: problem.stage),
    Facet(name="domain", label="Domain", labels=_labels(Domain), values=lambda problem: (problem.domain,)),
    Facet(
        name="category",
        label="Category of the paper",
        labels=_labels(Category),
        values=lambda problem: (category(problem),),
    ),
    Facet(
        name="source",
        label="Kind of code base",
        labels=_labels(SourceFamily),
        values=lambda problem: (source_family(problem),),
    ),
    Facet(
        name="kernel",
        label="Optimized public implementation",
        labels={"unknown": "None known", "known": "Known", "unsought": "Not looked for"},
        values=lambda problem: (_kernel(problem),),
    ),
    Facet(name="origin", label="Origin", labels={}, values=lambda problem: (_project(problem.origin),)),
)


def _text(problem: Problem) -> str:
    labels = " ".join(facet.label_of(str(value)) for facet in FACETS for value in facet.values(problem))
    return f"{problem.number} {problem.slug} {problem.title} {problem.summary} {problem.origin or ''} {labels}".lower()


@cache
def words() -> frozenset[str]:
    """Every word that some problem is found by."""
    return frozenset(word for problem in registry.problems() for word in re.findall(r"\w+", _text(problem)))


def find(problems: Iterable[Problem], *, chosen: dict[str, str], search: str = "") -> list[Problem]:
    """The problems that have every chosen facet value and every word of `search`, in their order."""
    words = search.lower().split()
    wanted = [(facet, value) for facet in FACETS if (value := chosen.get(facet.name))]
    return [
        problem
        for problem in problems
        if all(word in _text(problem) for word in words)
        and all(value in facet.values(problem) for facet, value in wanted)
    ]


def options(
    problems: Sequence[Problem], facet: Facet, *, chosen: dict[str, str], search: str = ""
) -> list[dict[str, Any]]:
    """The values of `facet` that occur, counted among the problems that the other facets and the search leave."""
    left = find(problems, chosen={name: value for name, value in chosen.items() if name != facet.name}, search=search)
    counts = Counter(str(value) for problem in left for value in set(facet.values(problem)))
    return [
        {"value": value, "label": facet.label_of(value), "count": counts[value], "is_chosen": is_chosen}
        for value in facet.labels or sorted(counts, key=str.lower)
        if (is_chosen := chosen.get(facet.name) == value) or counts[value]
    ]


def grouped(problems: Iterable[Problem], facet: Facet) -> list[tuple[str, str, list[Problem]]]:
    """The problems under each value of `facet` that occurs: the value, its label, and the problems in their order.

    A problem with several values stands under each.
    """
    every = list(problems)
    found = [(value, [item for item in every if value in facet.values(item)]) for value in facet.labels]
    return [(value, facet.label_of(value), members) for value, members in found if members]


_LETTERS, _NONE = "ABCD", "."
_WIDTH, _HEIGHT, _GAP = 26, 19, 3
_TOP, _LEFT, _RIGHT = 24, 24, 174
_UNEQUAL = ((18, 34, 26, 22), (30, 18, 22, 34), (22, 26, 34, 18), (34, 22, 18, 30))
"""Widths of the pieces of an all-to-all-v: what each rank sends to each."""

Rows = tuple[str, str, str, str]
"""The data of each rank: a piece per column, a dot where there is none."""


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern as `problems/data/patterns.toml` has it: what it does in one sentence, the data before and after."""

    sentence: str
    before: Rows
    after: Rows


@cache
def _states() -> dict[Communication, State]:
    return msgspec.toml.decode((registry.DATA / "patterns.toml").read_bytes(), type=dict[Communication, State])


def _widths(*, rank: int, is_after: bool, is_unequal: bool) -> Sequence[int]:
    if not is_unequal:
        return (_WIDTH,) * 4
    return [_UNEQUAL[source][rank] for source in range(4)] if is_after else _UNEQUAL[rank]


def _pieces(rows: Rows, *, left: int, is_after: bool, is_unequal: bool) -> list[dict[str, Any]]:
    """The rectangles of the picture; `tone` is the rank that one came from, or `sum`."""
    pieces = []
    for rank, row in enumerate(rows):
        x = left
        for text, width in zip(row.split(), _widths(rank=rank, is_after=is_after, is_unequal=is_unequal), strict=True):
            if text != _NONE:
                tone = "sum" if text.startswith("Σ") else str(_LETTERS.index(text[0]))
                y = _TOP + rank * (_HEIGHT + _GAP)
                pieces.append({"x": x, "y": y, "width": width, "middle": x + width / 2, "text": text, "tone": tone})
            x += width + _GAP
    return pieces


def _spoken(rows: Rows) -> str:
    held = [" ".join(piece for piece in row.split() if piece != _NONE) for row in rows]
    return "; ".join(f"rank {rank}: {pieces or 'nothing'}" for rank, pieces in enumerate(held))


def pattern(communication: Communication) -> dict[str, Any]:
    """A pattern with its picture and what it does in one sentence."""
    state = _states()[communication]
    is_unequal = communication is Communication.ALL_TO_ALL_V
    pieces = (
        *_pieces(state.before, left=_LEFT, is_after=False, is_unequal=is_unequal),
        *_pieces(state.after, left=_RIGHT, is_after=True, is_unequal=is_unequal),
    )
    spoken = f"Before, {_spoken(state.before)}. After, {_spoken(state.after)}."
    return {"communication": communication, "sentence": state.sentence, "pieces": pieces, "spoken": spoken}


def rank_rows() -> list[tuple[int, float]]:
    """The number of each rank and the height of its middle in the picture."""
    return [(rank, _TOP + rank * (_HEIGHT + _GAP) + _HEIGHT / 2) for rank in range(4)]
