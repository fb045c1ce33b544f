"""An invariant: a sentence that must hold of the data, and the rows that break it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

Finder = Callable[[datetime], Iterable[str]]
"""Names the rows that break an invariant at a moment, each by what an operator can look up."""


@dataclass(frozen=True, kw_only=True)
class Invariant:
    """A sentence that must hold, by a short name, and what finds the rows of which it does not."""

    name: str
    sentence: str
    find: Finder


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One invariant as it was found: the rows that break it, none where it holds."""

    name: str
    sentence: str
    broken: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing breaks it."""
        return not self.broken
