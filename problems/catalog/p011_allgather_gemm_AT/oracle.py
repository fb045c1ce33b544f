"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p011_allgather_gemm_AT.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`C` (M, N): the sum of every shard times the rows of the own B that meet it."""
    total = torch.zeros(call.shape(("M", "N")), dtype=torch.float64, device=call.device)
    blocks = make_inputs(call)["B"].chunk(call.world_size)
    for rank, block in enumerate(blocks):
        total.addmm_(make_inputs(call.at_rank(rank))["A_local"].double(), block.double())
    return (total,)
