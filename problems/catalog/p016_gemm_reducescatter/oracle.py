"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p016_gemm_reducescatter.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`C_local` (M_local, N): the own row block of every rank's product, summed without rounding in between."""
    total = torch.zeros(call.shape(("M_local", "N")), dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        arguments = make_inputs(call.at_rank(rank))
        rows = arguments["A_local"].chunk(call.world_size)[call.rank]
        total.addmm_(rows.double(), arguments["B_local"].double())
    return (total,)
