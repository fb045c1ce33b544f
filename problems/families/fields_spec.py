"""What the problems on transforms of batches of fields say alike. No torch."""

from dataclasses import replace

from problems.spec.ranges import Among
from problems.spec.schema import Regime, Tolerance


def sizes_by_field(tolerance: Tolerance) -> Regime:
    """Fields of very different sizes, each of which counts by its own size: `tolerance` says so for `out`."""
    return Regime(
        name="sizes_by_field",
        words="fields of a batch are of sizes up to a million million times apart, and each counts by its own size",
        settings={"sizes": "by_field"},
        tolerances={"out": tolerance},
    )


def with_a_zero_field(regime: Regime) -> Regime:
    """`regime`, in some calls of which one field of several is zero."""
    return replace(
        regime,
        words=f"{regime.words}, and of several fields the first or the last may be zero",
        settings={**regime.settings, "zero_field": Among(options=("first", "last", "none"))},
    )


FINITE = "Values are finite, and so is the sum of the sizes of all values of {} in float32."
"""An invariant, of a field."""

ANY_SIZES = "A batch has at least one field, and fields of one batch may be of very different sizes."
"""An invariant."""
