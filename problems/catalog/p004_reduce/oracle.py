"""The expected output of the destination, in float64."""

from collections.abc import Iterator

import torch
from torch import Tensor

from problems.catalog.p004_reduce.inputs import make_inputs
from problems.catalog.p004_reduce.spec import PROBLEM
from problems.inputs.values import Call
from problems.outputs.checking import within_rounding_of
from problems.outputs.comparison import Comparison, compare_output


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): the sum over all ranks on the destination, the own matrix elsewhere (and nobody looks)."""
    own = make_inputs(call)
    if call.rank != own["dst"]:
        return (own["tensor"].double(),)
    total = torch.zeros_like(own["tensor"], dtype=torch.float64)
    for addend in addends(call):
        total += addend
    return (total,)


def addends(call: Call) -> Iterator[Tensor]:
    """What every rank adds to the output."""
    for rank in range(call.world_size):
        yield make_inputs(call.at_rank(rank))["tensor"]


def compare(call: Call, actual: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> tuple[Comparison, ...]:
    """The destination's sum by the tolerance; the other ranks are right with any values."""
    (output,) = PROBLEM.outputs_in(call.regime)
    if call.rank != make_inputs(call)["dst"]:
        nothing = torch.zeros_like(expected[0])
        return (compare_output(output, nothing, nothing),)
    found = compare_output(output, actual[0], expected[0])
    if not found.passed or output.tolerance.is_exact:
        return (found,)
    return (within_rounding_of(call, addends, found, actual[0], expected[0], roundings=0),)
