"""Regimes of the problems that round under a scale from a history of largest magnitudes. No torch."""

from dataclasses import replace

from problems.spec.ranges import Real
from problems.spec.regimes import HUGE_VALUES, ONE_RANK_HAS_VALUES, TINY_VALUES, ZERO_VALUES, of_tensor
from problems.spec.schema import Regime

INVARIANTS = (
    "Tensors are contiguous.",
    "Values are finite.",
    "The history has 16 entries, none of them negative.",
)


def regimes(tensor: str) -> tuple[Regime, ...]:
    """The regimes of a problem that rounds its argument `tensor`; five have narrow programs of the problem's own."""
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
            name="old_outlier",
            words="an entry of the history is so large that hardly any code is more than a subnormal number",
            settings={"history": "outlier"},
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
