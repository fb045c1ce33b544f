"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p043_fused_adam_grad_unshard_allgather.inputs import hyperparameters, make_inputs
from problems.families import mlp_step
from problems.inputs.values import Call

_PIECE = 1 << 26
"""Elements updated at a time: half a gigabyte per float64 tensor."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`gathered` (W*P): all ranks' new parameters, in rank order."""
    given = hyperparameters(call)
    gathered = torch.empty(call.shape(("all",)), dtype=torch.float64, device=call.device)
    for rank, shard in enumerate(gathered.chunk(call.world_size)):
        own = make_inputs(call.at_rank(rank))
        state = (own[name].split(_PIECE) for name in ("master_shard", "exp_avg", "exp_avg_sq", "grad_shard"))
        for piece, w, m, v, g in zip(shard.split(_PIECE), *state, strict=True):
            piece.copy_(mlp_step.adam(w, m, v, g, given)[0])
    return (gathered,)
