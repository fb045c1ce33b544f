"""What each rank owes: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p038_ulysses_gather_seq_scatter_heads_qkv.inputs import make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, S, qkv_local): part `call.rank` of queries, of keys and of values at all true positions."""
    shards = []
    for rank in range(call.world_size):
        arguments = make_inputs(call.at_rank(rank))
        triple = arguments["qkv_tensor"].chunk(3, dim=2)
        own = [part.chunk(call.world_size, dim=2)[call.rank] for part in triple]
        shards.append(torch.cat(own, dim=2))
    unpadded = arguments["unpadded_dim_size"] or 0
    out = torch.cat(shards, dim=1)
    return (out[:, :unpadded] if unpadded % call.world_size else out,)
