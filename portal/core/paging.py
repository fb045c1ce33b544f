"""A part of a long board: the rows after or before one that a cursor names, and the way on and back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Q, QuerySet

from portal.core import cursors

Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class Order(Generic[Row]):
    """How a board is ordered and read.

    Attributes:
        columns: as Django writes them, "-" for descending.
        kinds: the types of their values, for cursors.
        values: the ordering values of a row.
        read: the first rows of an ordered query set.
    """

    columns: tuple[str, ...]
    kinds: tuple[type, ...]
    values: Callable[[Row], Sequence[Any]]
    read: Callable[[QuerySet[Any, Any], tuple[str, ...], int], list[Row]]


@dataclass(frozen=True, kw_only=True)
class Part(Generic[Row]):
    """Some rows in their order. `ahead` rows come before them, the last of these with the ordering values `above`.

    `after` and `before` are cursors to the next and the previous part, None where there is none.
    """

    rows: tuple[Row, ...]
    ahead: int
    above: tuple[Any, ...] | None
    after: str | None
    before: str | None

    @property
    def is_first(self) -> bool:
        """Whether the board begins here."""
        return self.above is None


def part(
    entries: QuerySet[Any, Any], order: Order[Row], *, after: str = "", before: str = "", rows: int, counts: bool = True
) -> Part[Row]:
    """The page of `entries` after the row that the cursor `after` names, or before that of `before`.

    At most two queries: the rows and, behind the first part, how many are ahead of them, unless `counts` says that
    nobody asks. Where fewer than a part's rows are in front of `before`, it is the first part.

    Raises:
        Refusal: a cursor is not one of ours (404).
    """
    if before and not after:
        return _in_front(entries, order, before=before, rows=rows, counts=counts)
    above = cursors.decode(after, kinds=order.kinds) if after else None
    behind = entries if above is None else entries.filter(beyond(order.columns, above))
    found = order.read(behind, order.columns, rows + 1)
    shown = found[:rows]
    return Part(
        rows=tuple(shown),
        ahead=_count_up_to(entries, order, above) if counts and above is not None else 0,
        above=above,
        after=cursors.encode(order.values(shown[-1])) if len(found) > rows else None,
        before=cursors.encode(order.values(shown[0])) if above is not None and shown else None,
    )


def _in_front(entries: QuerySet[Any, Any], order: Order[Row], *, before: str, rows: int, counts: bool) -> Part[Row]:
    below = cursors.decode(before, kinds=order.kinds)
    backwards = reverse_of(order.columns)
    found = order.read(entries.filter(beyond(backwards, below)), backwards, rows + 1)
    if len(found) <= rows:
        return part(entries, order, rows=rows, counts=counts)
    shown = found[rows - 1 :: -1]
    above = tuple(order.values(found[rows]))
    return Part(
        rows=tuple(shown),
        ahead=_count_up_to(entries, order, above) if counts else 0,
        above=above,
        after=cursors.encode(order.values(shown[-1])),
        before=cursors.encode(order.values(shown[0])),
    )


def _count_up_to(entries: QuerySet[Any, Any], order: Order[Row], values: Sequence[Any]) -> int:
    """How many entries come before or at the row with these ordering values."""
    return entries.order_by().filter(beyond(reverse_of(order.columns), values)).count() + 1


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
