"""The expected output of the destination, in float64."""

import torch
from torch import Tensor

from problems.catalog.p004_reduce.inputs import make_inputs
from problems.catalog.p004_reduce.spec import PROBLEM
from problems.inputs.values import Call
from problems.outputs.comparison import Comparison, compare_output


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): the sum over all ranks on the destination, the own matrix elsewhere (and nobody looks)."""
    own = make_inputs(call)
    total = own["tensor"].double()
    if call.rank == own["dst"]:
        for peer in range(call.world_size):
            if peer != call.rank:
                total += make_inputs(call.at_rank(peer))["tensor"]
    return (total,)


def compare(call: Call, actual: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> tuple[Comparison, ...]:
    """The destination's sum by the tolerance; the other ranks are right with any values."""
    is_destination = call.rank == make_inputs(call)["dst"]
    judged = actual[0] if is_destination else torch.zeros_like(expected[0])
    wanted = expected[0] if is_destination else torch.zeros_like(expected[0])
    return (compare_output(PROBLEM.outputs_in(call.regime)[0], judged, wanted),)
