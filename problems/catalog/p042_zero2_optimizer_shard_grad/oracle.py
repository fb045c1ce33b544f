"""What each rank owes, in float64."""

import torch
from torch import Tensor

from problems import mlp_step
from problems.catalog.p042_zero2_optimizer_shard_grad.inputs import hyperparameters, make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """All new parameters W1, b1, W2, b2, and the rank's part of the new moments."""
    every = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    w = mlp_step.flat([every[0][name] for name in mlp_step.SHAPES])
    m, v = (torch.cat([arguments[name] for arguments in every]) for name in ("exp_avg_part", "exp_avg_sq_part"))
    w, m, v = mlp_step.adam(w, m, v, mlp_step.mean_gradient(call, w), hyperparameters(call))
    part = slice(call.rank * call.dims["part"], (call.rank + 1) * call.dims["part"])
    return (*mlp_step.unflat(w, call), m[part].clone(), v[part].clone())
