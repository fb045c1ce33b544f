"""The rule that orders a board, defined once.

Boards of profiles that are ranked by speed go by the lower end of the score's interval, higher first; the earlier
submission comes first when equal. On practice profiles two copies of one program differ by tens of percent, so a score
orders nothing there. Every entry is correct, and the earlier submission comes first, with its times shown as
indicative.

People go by the number of problems that they solved faster than the reference, then by the number solved, then by
who was there earlier.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q


def is_better(score_low: float, submitted_at: datetime, *, than: tuple[float, datetime]) -> bool:
    """Whether an author's newer result replaces their standing `than` (lower end, time of submission)."""
    held_low, held_at = than
    return (-score_low, submitted_at) < (-held_low, held_at)


def board_order(*, is_ranked_by_speed: bool, size: str | None = None) -> tuple[str, ...]:
    """The columns of `Standing` by which a board is ordered, at one size or at all together."""
    low = "score_low" if size is None else f"low_{size}"
    return (f"-{low}", "submitted_at", "id") if is_ranked_by_speed else ("submitted_at", "id")


PEOPLE_ORDER = ("-faster", "-solved", "reached_at", "id")
"""The columns of `PersonStanding` by which people are ordered."""


def beyond(order: Sequence[str], values: Sequence[Any]) -> Q:
    """The rows that come after the row with these values; `order` names columns, "-" for descending.

    The first column is bounded on its own as well: it lets an index on the order start at the right row.
    """
    found = Q()
    equal = Q()
    for name, value in zip(order, values, strict=True):
        found |= equal & Q(**{_comparison(name): value})
        equal &= Q(**{name.lstrip("-"): value})
    return Q(**{f"{_comparison(order[0])}e": values[0]}) & found


def reverse_of(order: Sequence[str]) -> tuple[str, ...]:
    """The columns that order the same rows the other way round."""
    return tuple(name[1:] if name.startswith("-") else f"-{name}" for name in order)


def _comparison(name: str) -> str:
    return f"{name[1:]}__lt" if name.startswith("-") else f"{name}__gt"
