"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p013_gemm_allreduce.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`C` (M, N): the sum of all ranks' products, nothing rounded in between."""
    total = torch.zeros(call.shape(("M", "N")), dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        arguments = make_inputs(call.at_rank(rank))
        total.addmm_(arguments["A_local"].double(), arguments["B_local"].double())
    return (total,)
