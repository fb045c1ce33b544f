"""What each rank owes, in float64."""

import torch
from torch import Tensor

from problems import mlp_step
from problems.catalog.p047_fsdp_step_e2e.inputs import hyperparameters, make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """The rank's shards (part) of the new parameters, first and second moments."""
    every = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    parameters = torch.cat([arguments["flat_param_shard"].double() for arguments in every])
    own = slice(call.rank * call.dims["part"], (call.rank + 1) * call.dims["part"])
    gradient = mlp_step.mean_gradient(call, parameters)[own]
    m, v = every[call.rank]["exp_avg_shard"], every[call.rank]["exp_avg_sq_shard"]
    return mlp_step.adam(parameters[own], m, v, gradient, hyperparameters(call), decays=True)
