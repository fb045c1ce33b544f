"""An invariant: a sentence that must be true of the data, and the rows that break it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

Finder = Callable[[datetime], Iterable[str]]
"""Names the rows that break an invariant at a moment, each by what an operator can look up."""


@dataclass(frozen=True, kw_only=True)
class Invariant:
    """A sentence that must be true, with a short name and a query for the rows that break it."""

    name: str
    sentence: str
    find: Finder


def invariant(name: str, sentence: str) -> Callable[[Finder], Invariant]:
    """A decorator: makes an invariant of the function that finds what breaks it."""
    return lambda find: Invariant(name=name, sentence=sentence, find=find)
