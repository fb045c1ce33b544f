"""Lists over tables of millions of rows: what a page costs does not grow with the table."""

from functools import cached_property
from typing import Any, cast

from django.core.paginator import Paginator
from django.db.models import QuerySet


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
        """Whether there may be more rows than are counted."""
        return self.count >= self.most
