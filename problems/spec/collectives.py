"""What the problems of plain collectives have in common: legal matrices and regimes of extents. No torch."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import COPIED_VALUES, EDGES, ZERO_VALUES, beyond_16_bits, long_extent, other_extents
from problems.spec.schema import Dims, Regime

_LONG = ("8193", "8209", "70001", "10007", "11003", "12289", "40009", "9601")
"""Odd, so that no wider word holds a whole number of elements, and more than 1024 threads of 16 bytes hold."""

_MANY = Among(options=("65537", "66601", "69997"))
"""Odd as well."""

ALIKE_MATRICES = Regime(
    name="alike_matrices",
    words="all matrices hold the same numbers, which add up to zero, each in an order of its own inside edges of zeros",
    settings={"matrices": "alike"},
    dims={"M": Extent(low=8, high=120), "N": Extent(low=8, high=200)},
)
"""For copies; `problems.families.alike_matrices` draws them."""

_ELEMENTS, _FEW = 4096, 64


def _of_one_size(dims: Dims, _world_size: int) -> Dims:
    return {**dims, "N": _ELEMENTS // dims["M"]}


def _of_as_many(dims: Dims, _world_size: int) -> Dims:
    """More rows where columns are few, and otherwise more columns, where elements would be few."""
    rows, columns = dims["M"], dims["N"]
    if columns < _FEW:
        return {**dims, "M": max(rows, -(-_ELEMENTS // columns))}
    return {**dims, "N": max(columns, -(-_ELEMENTS // rows))}


_ONE_SIZE = Regime(
    name="one_size",
    words="matrices have 4096 elements, in 1 to 4096 rows",
    dims={"M": Among(options=("1", "16", "32", "64", "128", "512", "4096"))},
    derive=_of_one_size,
    narrow="tail_left_out",
    apart=("other_extents", "alike_matrices", "long_rows"),
)
"""A whole number of tiles of every kind; what is kept by the number of elements alone meets another shape."""

COPIED_REGIMES = (
    replace(
        ZERO_VALUES,
        words="all values are zeros of either sign, or all but one value of each matrix are zero",
        settings={**ZERO_VALUES.settings, "kept": Among(options=("none", "one"))},
    ),
    *(regime for regime in COPIED_VALUES if regime is not ZERO_VALUES),
    other_extents(M=Extent(high=300), N=Extent(high=400)),
    _ONE_SIZE,
    # Of few elements, a last piece is short where ranks take pieces of a size, or there is none.
    replace(
        long_extent("long_rows", M=1, N=Among(options=("5", "9", *_LONG[::2]))),
        words="there is one row, which is long or has few elements",
    ),
    replace(
        beyond_16_bits("many_rows", M=_MANY, N=1),
        words="there are more rows than 16 bits can number, and the first half of them is zero",
        settings={"kept": "half"},
    ),
    ALIKE_MATRICES,
)
"""For matrices that are only moved; small enough that eight ranks' matrices together are."""

SUMMED_EXTENTS = (
    replace(
        other_extents(derive=_of_as_many, M=Extent(low=4, high=120), N=Extent(low=4, high=200)),
        words=f"tensors have other extents than usual, and {EDGES.format('matrix')}; where they are opposite, the "
        "second half of it is the negative of the first; where they are whole, it holds whole numbers of thousands",
        settings={"edges": Among(options=("zero", "negative", "opposite", "whole"))},
    ),
    replace(_ONE_SIZE, apart=("other_extents", "long_rows")),
    long_extent("long_rows", M=Whole(low=1, high=3), N=Among(options=_LONG)),
    beyond_16_bits("many_rows", M=_MANY, N=Among(options=("1", "3"))),
)
"""Small, too. Matrices of other extents have 4096 elements at least.

Where half of the elements are zero, a thousand are left: of fewer, an honest sum's root mean square of errors may
exceed its bound by chance. `problems.families.zero_edges` draws edges. Long matrices may have fewer rows than there
are ranks.
"""

COPIED_INVARIANTS = (
    "Tensors are contiguous.",
    "M and N may be odd or prime, and are the same on all ranks.",
    "No tensor has 2^30 elements or more.",
    "Values may be infinite, NaN or subnormal. Finite ones are at most 1e32 in size.",
    "Copies are compared bit by bit, but a NaN only has to stay a NaN: its bits are free.",
)

SUMMED_INVARIANTS = (
    "Tensors are contiguous.",
    "M and N may be odd or prime, and are the same on all ranks.",
    "A result has at least 256 elements, and no tensor has 2^30 or more.",
    "Values may be infinite or NaN, and sums then are what they are in float64.",
    "The largest finite value of a rank is zero or between 1e-26 and 1e30 in size.",
    "Sums of finite values do not overflow, in any order.",
)
