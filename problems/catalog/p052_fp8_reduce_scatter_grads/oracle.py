"""The expected outputs: the codes as the card has them, their mean in float64."""

import torch
from torch import Tensor

from problems.catalog.p052_fp8_reduce_scatter_grads.inputs import make_inputs
from problems.families.delayed_scaling import rounded
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out_shard` (P) and `updated_hist` (16)."""
    total = torch.zeros(call.dims["P"], dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        total += rounded(*make_inputs(call.at_rank(rank)).values()).values.chunk(call.world_size)[call.rank]
    return total / call.world_size, rounded(*make_inputs(call).values()).history
