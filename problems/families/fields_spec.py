"""What the problems on transforms of batches of fields say alike. No torch."""

from problems.spec.schema import Regime, Tolerance


def sizes_by_field(tolerance: Tolerance) -> Regime:
    """Fields of very different sizes, each of which counts by its own size: `tolerance` says so for `out`."""
    return Regime(
        name="sizes_by_field",
        words="fields of a batch are of sizes up to a million million times apart, and each counts by its own size",
        settings={"sizes": "by_field"},
        tolerances={"out": tolerance},
    )


ANY_SIZES = "A batch has at least one field, and fields of one batch may be of very different sizes."
"""An invariant."""
