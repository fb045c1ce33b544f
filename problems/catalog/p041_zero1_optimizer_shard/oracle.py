# ruff: noqa: PLC0415
# A spec counts by its data: until it is asked, the oracle must not load the modules that it is made from.
"""The expected outputs, in float64, and a comparison with room where gradients of ranks cancel."""

from collections.abc import Sequence

from torch import Tensor

from problems.families import zero_step
from problems.families.zero_step import expected
from problems.inputs.values import Call
from problems.outputs.comparison import Comparison, compare_output

__all__ = ("compare", "expected")


def compare(call: Call, actual: Sequence[Tensor], right: Sequence[Tensor]) -> tuple[Comparison, ...]:
    """By tolerance, with room for elements that rounding decides."""
    from problems.catalog.p041_zero1_optimizer_shard.spec import PROBLEM

    return zero_step.compare(call, PROBLEM.outputs_in(call.regime), actual, right, by=compare_output)
