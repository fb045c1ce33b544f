"""What the problems of plain collectives have in common: legal matrices and regimes of extents. No torch."""

from problems.spec.ranges import Among, Extent
from problems.spec.regimes import long_extent, other_extents

_LONG = Among(options=("8193", "8209", "9601", "10007", "11003", "12289"))
"""Odd, so that no wider word holds a whole number of elements, and more than 1024 threads of 16 bytes hold."""

COPIED_EXTENTS = (
    other_extents(M=Extent(high=120), N=Extent(high=200)),
    long_extent("long_rows", M=1, N=_LONG),
)
"""Small enough that eight ranks' matrices together are."""

SUMMED_EXTENTS = (
    other_extents(M=Extent(low=16, high=120), N=Extent(low=16, high=200)),
    long_extent("long_rows", M=1, N=_LONG),
)
"""As COPIED_EXTENTS; in fewer elements one that cancels would decide the error's root mean square."""

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
