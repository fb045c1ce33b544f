"""The expected outputs: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p038_ulysses_gather_seq_scatter_heads_qkv.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, S, qkv_local), in the layout of the call: the own part of queries, keys and values, without padding."""
    every = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    seq_dim, unpadded = every[0]["seq_dim"], every[0]["unpadded_dim_size"] or 0
    triples = [arguments["qkv_tensor"].unflatten(2, (3, -1)) for arguments in every]
    out = torch.cat([triple.chunk(call.world_size, dim=3)[call.rank] for triple in triples], dim=seq_dim)
    if unpadded % call.world_size:
        out = out.narrow(seq_dim, 0, unpadded)
    return (out.flatten(2) if every[0]["restore_shape"] else out,)
