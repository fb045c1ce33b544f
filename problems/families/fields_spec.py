"""What the problems on transforms of batches of fields say alike. No torch."""

from dataclasses import replace

from problems.spec.ranges import Among, Extent, Real
from problems.spec.schema import Regime, Scope, Tolerance


def sizes_by_field(tolerance: Tolerance) -> Regime:
    """Fields of very different sizes, each of which counts by its own size, with `tolerance`, the usual one."""
    return Regime(
        name="sizes_by_field",
        words="fields of a batch are 2^-75 to 2^75 times as large as usual, and each counts by its own size",
        settings={"sizes": "by_field"},
        tolerances={"out": _by_its_own_size(tolerance)},
    )


def two_sizes(tolerance: Tolerance, *, batch: str) -> Regime:
    """An even number of fields of two sizes: where two share one complex transform, the small one is inexact.

    `batch` is the name of the extent that counts them, `tolerance` the usual one.
    """
    return Regime(
        name="two_sizes",
        words="every second field is so many times as small, and each counts by its own size",
        settings={"sizes": "two", "smaller": Real(low=1000.0, high=30_000.0, by_size=True)},
        dims={batch: Extent(low=2, high=8, of=2)},
        tolerances={"out": _by_its_own_size(tolerance)},
    )


def _by_its_own_size(tolerance: Tolerance) -> Tolerance:
    return replace(
        tolerance,
        scope=Scope.FIELD,
        calibration="An honest error is about 2e-7 of its field, as in usual calls. A transform that two fields share "
        "errs by as much of the larger one, which is 2e-4 of the smaller one or more. A field that is lost errs by 1.",
    )


def with_a_zero_field(regime: Regime, *, row: str = "the first row of each") -> Regime:
    """`regime`, in some calls of which one field of several is zero, or what `row` names."""
    return replace(
        regime,
        words=f"{regime.words}, and of several fields the first or the last may be zero, or {row}",
        settings={**regime.settings, "zero_field": Among(options=("first", "last", "row", "none"))},
    )
