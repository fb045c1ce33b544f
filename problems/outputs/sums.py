"""The bound on sums over ranks: nothing but the rounding of partial sums may be between an output and the oracle's.

Usual calls show with it what travels in fewer bits, so there is no call that a program would have to recognise. Let u
be the half of a unit in the last place of 1 in the output's dtype, and N the ranks. Let r be the further roundings of
an addend, and Q the sum of the squares of an element's addends. Then an error is measured in
u * sqrt(ref^2 + (c + r) * Q). Adding in any order rounds N - 1 times, and rounding errs by 0.41 u to 0.43 u of a sum
(rms). Partial sums of k addends with independent signs have a mean square of the largest k ranks' share of Q at the
most; c adds these shares for k from 2 to N - 1. So honest sums have an rms of at most 0.43 in this measure, on any
number of ranks. No element errs by more than u * (|ref| + (N - 2 + r) * sqrt(N Q)).
"""

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt

import torch
from torch import Tensor

from problems.outputs.comparison import Comparison

MOST_RMS = 0.46
"""Of all errors, in the measure above."""

_MARGIN = 1.02
"""For sums in float32 that are rounded twice."""

_NOISE = 2.0**-18
"""Of products in float32, as a multiple of the root mean square of all addends."""

MOST_ELEMENTS = 1 << 23
"""The largest output whose addends are drawn once more; beyond it sums of two addends are bounded, in a secret part."""


def within_rounding(
    found: Comparison, actual: Tensor, expected: Tensor, *, addends: Iterator[Tensor], world_size: int, roundings: int
) -> Comparison:
    """`found`, refused where errors exceed those of rounded partial sums.

    Args:
        found: the comparison by tolerance.
        actual: what a program returned, in the dtype that it was rounded to.
        expected: the exact sum, float64, of the same shape.
        addends: what each rank adds; not drawn where there are two and none is rounded before.
        world_size: how many addends an element has.
        roundings: how often an honest program rounds an addend before it is added: 0 where it is an input.
    """
    steps = world_size - 2 + roundings
    kind = torch.finfo(actual.dtype)
    unit = kind.eps / 2
    value, right = actual.double(), expected.double()
    is_finite = value.isfinite() & right.isfinite()
    error = torch.where(is_finite, value - right, 0.0).abs()
    error = (error - kind.tiny).clamp_(min=0.0)  # below the normal numbers rounding is as large as there
    reference = torch.where(is_finite, right, 0.0)
    measure = limit = unit * reference.abs()
    if steps:
        squares, shares = torch.zeros_like(reference), []
        for addend in addends:
            square = torch.where(is_finite, addend.double(), 0.0).square()
            squares += square
            shares.append(float(square.sum()))
        shares.sort(reverse=True)
        partial = sum(sum(shares[:count]) for count in range(2, world_size)) / (sum(shares) or 1.0)
        noise = _NOISE * squares.mean().sqrt() if roundings else 0.0
        # Without it a result near zero, whose addends are as small, would count by the noise of its product.
        measure = unit * (reference.square() + (partial + roundings) * squares).sqrt() + noise
        limit = unit * (reference.abs() + steps * (world_size * squares).sqrt()) + noise
    beyond = error > _MARGIN * limit
    counted = measure > 0
    squared = torch.where(counted, error / measure, 0.0).square()
    rms = sqrt(float(squared.sum()) / max(1, int(counted.sum())))
    wrong = int(beyond.sum())
    if not wrong and rms <= MOST_RMS:
        return found
    name = str(actual.dtype).removeprefix("torch.")
    remark = (
        f"errors beyond the rounding of sums in {name}: {wrong} of {actual.numel()} elements err by more than adding "
        f"in any order can, and the rms is {rms:.3g} of a rounding where {MOST_RMS} is allowed. Is something sent in "
        "fewer bits?"
    )
    return replace(found, passed=False, remark=remark)
