"""Regimes of the problems that round under a scale from a history of largest magnitudes. No torch."""

from dataclasses import replace

from problems.spec.ranges import Extent, Real, Whole
from problems.spec.regimes import (
    HUGE_VALUES,
    ONE_RANK_HAS_VALUES,
    TINY_VALUES,
    ZERO_VALUES,
    long_extent,
    of_tensor,
    other_extents,
)
from problems.spec.schema import Dims, Regime, Tolerance

INVARIANTS = (
    "Tensors are contiguous, and have the same shapes on all ranks.",
    "Values are at most 2e9 in size, and magnitudes in the history at most 2e14. Nonzero ones are at least 1e-39.",
    "The history has 16 entries, none of them negative. All may be zero.",
    "One entry of the history may be up to 132,000 times the largest magnitude.",
    "P need not be even, nor a multiple of 16.",
)


def _whole(dims: Dims, world_size: int) -> Dims:
    """All dimensions, where P is the length of a shard."""
    return {**dims, "WP": world_size * dims["P"]}


_OF_FEW = Tolerance(
    atol=0.5,
    rtol=0.13,
    rms=0.06,
    calibration="One code more or less is at most 12.5 % of one of few elements, and a sum of few may cancel.",
)


def other_shards(output: str) -> tuple[Regime, ...]:
    """Shards of other lengths than the sizes have; all have narrow programs of the problem's own."""
    other = other_extents(P=Extent(low=200, high=3990), derive=_whole, narrow="")
    return (
        # Under the scale of an outlier a few last elements that were not rounded show, too.
        replace(other, words=f"{other.words}, and an entry of the history is large", settings={"history": "outlier"}),
        Regime(
            name="few_elements",
            words="a shard has 1 to 31 elements, of one sign if they are fewer than 3",
            dims={"P": Whole(low=1, high=31, often=(1, 1, 1, 1))},
            derive=_whole,
            tolerances={output: _OF_FEW},
        ),
        long_extent("long_shards", P=Extent(low=33_000, high=70_000), derive=_whole, narrow=""),
    )


def regimes(tensor: str) -> tuple[Regime, ...]:
    """The regimes of a problem that rounds its argument `tensor`; six have narrow programs of the problem's own."""
    return (
        *of_tensor(
            f"{tensor} and the history", replace(TINY_VALUES, narrow=""), HUGE_VALUES, ZERO_VALUES, ONE_RANK_HAS_VALUES
        ),
        Regime(
            name="first_step",
            words="the history is all zeros, as before the first step",
            settings={"history": "zero"},
        ),
        Regime(
            name="nothing_new",
            words=f"all values of {tensor} are zero, and the history is not",
            settings={"values": "zero", "history": "kept"},
            hides=True,
            apart=("below_the_floor", "near_the_floor"),
        ),
        Regime(
            name="old_outlier",
            words="an entry of the history is so large that hardly any code is more than a subnormal number",
            settings={"history": "outlier", "outlier": Whole(low=14, high=17)},
        ),
        Regime(
            name="below_the_floor",
            words="all magnitudes are so far below 1e-12, the least that a scale is made of, that every code is zero",
            settings={"scale": 2.0**-70},
            apart=("huge_values",),
        ),
        # Not below the floor: rounded to bfloat16 or not, it gives other codes.
        Regime(
            name="near_the_floor",
            words="largest magnitudes lie between 1e-12, the least that a scale is made of, and 1e-10",
            settings={"scale": Real(low=2.0**-41, high=2.0**-38, by_size=True)},
            apart=("tiny_values", "huge_values"),
            dtypes=("bfloat16", "float32"),
        ),
    )
