"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p045_reducescatter_fused_rmsnorm.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (rows, hidden): the mean of the own chunk over all ranks, its rows normalised."""
    mean = torch.zeros(call.dims["chunk"], dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        mean += make_inputs(call.at_rank(rank))["rs_input_1d"].chunk(call.world_size)[call.rank]
    own = make_inputs(call)
    rows = mean.div_(call.world_size).view(call.shape(("rows", "hidden")))
    scale = torch.rsqrt(rows.square().mean(dim=1, keepdim=True) + own["eps"])
    return (rows * scale * own["gamma"].double(),)
