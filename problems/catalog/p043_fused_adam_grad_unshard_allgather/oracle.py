"""What each rank owes, in float64."""

import torch
from torch import Tensor

from problems import mlp_step
from problems.catalog.p043_fused_adam_grad_unshard_allgather.inputs import hyperparameters, make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`gathered` (W*P): all ranks' new parameters, in rank order."""
    given = hyperparameters(call)
    shards = []
    for rank in range(call.world_size):
        own = make_inputs(call.at_rank(rank))
        w, m, v, g = (own[name] for name in ("master_shard", "exp_avg", "exp_avg_sq", "grad_shard"))
        shards.append(mlp_step.adam(w, m, v, g, given)[0])
    return (torch.cat(shards),)
