"""The expected outputs, in float64."""

from collections.abc import Iterator

import torch
from torch import Tensor

from problems.catalog.p013_gemm_allreduce.inputs import make_inputs
from problems.inputs.values import Call

ROUNDINGS = 2
"""A product may be rounded once, and once inside, where a library adds its parts."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`C` (M, N): the sum of all ranks' products, nothing rounded in between."""
    total = torch.zeros(call.shape(("M", "N")), dtype=torch.float64, device=call.device)
    for addend in addends(call):
        total += addend
    return (total,)


def addends(call: Call) -> Iterator[Tensor]:
    """What every rank adds to the output: its product, in float64."""
    for rank in range(call.world_size):
        arguments = make_inputs(call.at_rank(rank))
        yield arguments["A_local"].double() @ arguments["B_local"].double()
