"""The expected outputs, in float64, without the intermediate rounding of the original."""

import torch
from torch import Tensor

from problems.catalog.p018_tp_rms_norm.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): the rank's shard, normalised by the root mean square over all ranks' hidden elements."""
    squares = torch.zeros(call.shape(("M", 1)), dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        hidden = make_inputs(call.at_rank(rank))["local_hidden_states"].double()
        squares += hidden.square().sum(dim=1, keepdim=True)
    own = make_inputs(call)
    variance = squares / (call.dims["N"] * call.world_size)
    scale = torch.rsqrt(variance + own["variance_epsilon"])
    return (own["local_hidden_states"].double() * scale * own["local_weight"].double(),)
