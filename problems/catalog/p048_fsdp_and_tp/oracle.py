"""The expected outputs, in float64, one tensor-parallel part after the other."""

import torch
from torch import Tensor, nn

from problems.catalog.p048_fsdp_and_tp.inputs import make_inputs, parts, samples
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`y` (B_fsdp, D): the whole gated MLP of the rank's samples."""
    tp, fsdp = parts(call), call.world_size // parts(call)
    x = samples(call).double()
    y = torch.zeros_like(x)
    for part in range(tp):
        shards = [make_inputs(call.at_rank(place * tp + part)) for place in range(fsdp)]
        gate, up = (torch.cat([shard[name].double() for shard in shards]) for name in ("W1_shard", "W2_shard"))
        down = torch.cat([shard["W3_shard"].double() for shard in shards], dim=1)
        y += (nn.functional.silu(x @ gate) * (x @ up)) @ down
    return (y,)
