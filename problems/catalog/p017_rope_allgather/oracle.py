"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p017_rope_allgather.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`q_embed` and `k_embed` (B, W * S_local, heads, d): every rank's shard, rotated, in its place."""
    shape = call.shape(("B", "WS", "heads", "d"))
    outputs = tuple(torch.empty(shape, dtype=torch.float64, device=call.device) for _ in range(2))
    for rank in range(call.world_size):
        arguments = make_inputs(call.at_rank(rank))
        cos, sin = arguments["cos_local"].double().unsqueeze(2), arguments["sin_local"].double().unsqueeze(2)
        for whole, name in zip(outputs, ("q_local", "k_local"), strict=True):
            shard = whole.narrow(1, rank * call.dims["S_local"], call.dims["S_local"])
            x = arguments[name].double()
            # Rolling by half the width swaps the halves; the first then needs its sign turned.
            turned = x.roll(call.dims["d"] // 2, dims=-1)
            turned[..., : call.dims["d"] // 2].neg_()
            torch.add(x * cos, turned * sin, out=shard)
    return outputs
