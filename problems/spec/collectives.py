"""What the problems of plain collectives have in common: legal matrices and regimes of extents. No torch."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Whole
from problems.spec.regimes import long_extent, other_extents
from problems.spec.schema import Regime

_LONG = Among(options=("8193", "8209", "9601", "10007", "11003", "12289"))
"""Odd, so that no wider word holds a whole number of elements, and more than 1024 threads of 16 bytes hold."""

COPIED_EXTENTS = (
    other_extents(M=Extent(high=120), N=Extent(high=200)),
    long_extent("long_rows", M=1, N=_LONG),
)
"""Small enough that eight ranks' matrices together are."""

ALIKE_MATRICES = Regime(
    name="alike_matrices",
    words="all matrices hold the same numbers, which add up to zero, each in an order of its own inside edges of zeros",
    settings={"matrices": "alike"},
    dims={"M": Extent(low=8, high=120), "N": Extent(low=8, high=200)},
)
"""For copies; `problems.families.alike_matrices` draws them."""

SUMMED_EXTENTS = (
    replace(
        other_extents(M=Extent(low=16, high=120), N=Extent(low=16, high=200)),
        words="tensors have other extents than usual; where edges are zero, so are the first and last rows and columns "
        "of each rank's matrix, or of its parts by rank",
        settings={"edges": Among(options=("usual", "zero"))},
    ),
    long_extent("long_rows", M=Whole(low=1, high=3), N=_LONG),
)
"""Small, too; in fewer elements one that cancels would decide the error's root mean square.

`problems.families.zero_edges` draws edges. Long matrices may have fewer rows than there are ranks.
"""

COPIED_INVARIANTS = (
    "Tensors are contiguous.",
    "M and N are any whole numbers from 1 on, odd and prime ones too, and the same on all ranks.",
    "No tensor has 2^30 elements or more.",
    "Copies are compared bit by bit, but a NaN only has to stay a NaN: its bits are free.",
)

SUMMED_INVARIANTS = (
    "Tensors are contiguous.",
    "M and N are any whole numbers from 1 on, odd and prime ones too, and the same on all ranks.",
    "A result has at least 256 elements, and no tensor has 2^30 or more.",
    "Values may be infinite or NaN, and sums then are what they are in float64.",
    "Sums of finite values do not overflow, in any order.",
)
