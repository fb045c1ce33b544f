"""The expected outputs, in float64."""

from collections.abc import Iterator

import torch
from torch import Tensor

from problems.catalog.p016_gemm_reducescatter.inputs import make_inputs
from problems.inputs.values import Call

ROUNDINGS = 2
"""A product may be rounded once, and once inside, where a library adds its parts."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`C_local` (M_local, N): the own row block of every rank's product, summed without rounding in between."""
    total = torch.zeros(call.shape(("M_local", "N")), dtype=torch.float64, device=call.device)
    for addend in addends(call):
        total += addend
    return (total,)


def addends(call: Call) -> Iterator[Tensor]:
    """What every rank adds to the output: a block of its product, in float64."""
    for rank in range(call.world_size):
        arguments = make_inputs(call.at_rank(rank))
        rows = arguments["A_local"].chunk(call.world_size)[call.rank]
        yield rows.double() @ arguments["B_local"].double()
