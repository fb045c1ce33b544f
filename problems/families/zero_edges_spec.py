"""Products with other extents than usual, whose factors may begin and end with zeros. No torch."""

from collections.abc import Callable
from dataclasses import replace

from problems.spec.ranges import Among, Range
from problems.spec.regimes import EDGES, other_extents
from problems.spec.schema import Dims, Regime


def other_products(*, derive: Callable[[Dims, int], Dims] | None = None, **extents: Range) -> Regime:
    """Other extents than usual; mostly the outermost rows and columns of all matrices are zero.

    `problems.families.zero_edges` draws them.
    """
    return replace(
        other_extents(derive=derive),
        dims=extents,
        words=f"tensors have other extents than usual; {EDGES.format('matrices')}",
        settings={"edges": Among(options=("usual", "zero", "negative"))},
    )
