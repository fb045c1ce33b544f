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


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result for one invariant: the rows that break it."""

    name: str
    sentence: str
    broken: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing breaks it."""
        return not self.broken
