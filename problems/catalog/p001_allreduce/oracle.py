"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p001_allreduce.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): the sum over all ranks."""
    total = torch.zeros(call.shape(("M", "N")), dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        total += make_inputs(call.at_rank(rank))["tensor"]
    return (total,)
