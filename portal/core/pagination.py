"""Pages of long lists: by the ordering values of a row, so that what a page costs does not grow with the table.

The thousandth page costs what the first does, and an entry that arrives meanwhile neither repeats nor hides another.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from django.core.paginator import Paginator
from django.core.signing import BadSignature, Signer
from django.db.models import Q, QuerySet

from portal.core.errors import NotFound

Row = TypeVar("Row")
Other = TypeVar("Other")


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """A paginator that counts a bounded number of rows: pages beyond them are not offered.

    Filters reach the rows beyond.
    """

    most = 3000

    @cached_property
    def count(self) -> int:
        """How many rows there are, `most` where there are more."""
        rows = cast("QuerySet[Any]", self.object_list)
        # Without their annotations, which the database would make for each of them.
        return int(rows.order_by().values("pk")[: self.most].count())

    @property
    def is_cut(self) -> bool:
        return self.count >= self.most


@dataclass(frozen=True, kw_only=True)
class Ordering(Generic[Row]):
    """How a board is ordered and read.

    Attributes:
        columns: as Django writes them, "-" for descending.
        read: the first rows of a query set in an order; by default models as they are.
    """

    columns: tuple[str, ...]
    read: Callable[[QuerySet[Any, Any], tuple[str, ...], int], list[Row]] = lambda entries, columns, limit: list(
        entries.order_by(*columns)[:limit]
    )

    def values(self, row: Row) -> tuple[Any, ...]:
        """The ordering values of a row, a model or a mapping."""
        names = [name.lstrip("-") for name in self.columns]
        return tuple(row[name] if isinstance(row, Mapping) else getattr(row, name) for name in names)


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Row]):
    """Some rows in their order. `ahead` rows come before them, the last of these with the ordering values `above`.

    `after` and `before` are cursors to the next and the previous page, None where there is none.
    """

    rows: tuple[Row, ...]
    ahead: int
    above: tuple[Any, ...] | None
    after: str | None
    before: str | None

    @property
    def is_first(self) -> bool:
        return self.above is None

    def showing(self, rows: Iterable[Other]) -> "Page[Other]":
        """The same page with its rows as readers see them."""
        return Page(rows=tuple(rows), ahead=self.ahead, above=self.above, after=self.after, before=self.before)


def page_of(
    entries: QuerySet[Any, Any],
    ordering: Ordering[Row],
    *,
    after: str = "",
    before: str = "",
    rows: int,
    counts: bool = True,
) -> Page[Row]:
    """The page of `entries` after the row that the cursor `after` names, or before that of `before`.

    At most two queries: the rows and, behind the first page, how many are ahead of them, unless `counts` says that
    nobody asks. Where fewer than a page's rows are in front of `before`, it is the first page.

    Raises:
        Refusal: a cursor is not one of ours (404).
    """
    above = decode(ordering.columns, after) if after else None
    if before and not after:
        backwards = reverse_of(ordering.columns)
        in_front = entries.filter(beyond(backwards, decode(ordering.columns, before)))
        found = ordering.read(in_front, backwards, rows + 1)[::-1]
        if len(found) > rows:
            above, shown, is_more = ordering.values(found[0]), found[1:], True
    if above is None or after:
        behind = entries if above is None else entries.filter(beyond(ordering.columns, above))
        found = ordering.read(behind, ordering.columns, rows + 1)
        shown, is_more = found[:rows], len(found) > rows
    ahead = 0
    if counts and above is not None:
        ahead = entries.order_by().filter(beyond(reverse_of(ordering.columns), above)).count() + 1
    return Page(
        rows=tuple(shown),
        ahead=ahead,
        above=above,
        after=encode(ordering.columns, ordering.values(shown[-1])) if is_more else None,
        before=encode(ordering.columns, ordering.values(shown[0])) if above is not None and shown else None,
    )


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


def _cursors(order: Sequence[str]) -> Signer:
    """What signs the cursors of one order: no values but those of its rows ever reach the database."""
    return Signer(salt=f"cursor of {', '.join(order)}")


def encode(order: Sequence[str], values: Sequence[Any]) -> str:
    """The ordering `values` of a row (numbers and times) as a token for an address."""
    plain = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    return _cursors(order).sign_object(plain)


def decode(order: Sequence[str], word: str) -> tuple[Any, ...]:
    """The values in the token `word`, times as text; raises Refusal (404) where `encode` made no such token."""
    try:
        return tuple(_cursors(order).unsign_object(word))
    except BadSignature:
        raise NotFound(
            "after", word, "This board has no page that begins there.", "Start from its first page."
        ) from None
