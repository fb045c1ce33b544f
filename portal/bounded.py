"""Lists over tables of millions of rows: what a page costs does not grow with the table."""

from functools import cached_property

from django.core.paginator import Paginator


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """A paginator that counts so many rows and no more: pages beyond them are not offered.

    What lies behind is reached by narrowing the list.
    """

    most = 3000

    @cached_property
    def count(self) -> int:
        """How many rows there are, `most` where there are more."""
        return int(self.object_list.order_by()[: self.most].count())  # type: ignore[union-attr]

    @property
    def is_cut(self) -> bool:
        """Whether there may be more rows than are counted."""
        return self.count >= self.most
