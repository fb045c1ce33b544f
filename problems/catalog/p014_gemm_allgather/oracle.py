"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p014_gemm_allgather.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`C` (M, W * N_local): every rank's product in its place."""
    C = torch.empty(call.shape(("M", "WN")), dtype=torch.float64, device=call.device)
    for rank, block in enumerate(C.split(call.dims["N_local"], dim=1)):
        arguments = make_inputs(call.at_rank(rank))
        block.copy_(arguments["A"].double() @ arguments["B"].double())
    return (C,)
