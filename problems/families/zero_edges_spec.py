"""Products with other extents than usual, whose factors may begin and end with zeros. No torch."""

from collections.abc import Callable
from dataclasses import replace

from problems.spec.ranges import Among, Range
from problems.spec.regimes import other_extents
from problems.spec.schema import Dims, Regime


def other_products(*, derive: Callable[[Dims, int], Dims] | None = None, **extents: Range) -> Regime:
    """Other extents than usual; in half of the calls the outermost rows and columns of all matrices are zero.

    `problems.families.zero_edges` draws them.
    """
    return replace(
        other_extents(derive=derive),
        dims=extents,
        words="tensors have other extents than usual; where edges are zero, so are the first and last rows and columns "
        "of each rank's matrices, or of their parts by rank",
        settings={"edges": Among(options=("usual", "zero"))},
    )
