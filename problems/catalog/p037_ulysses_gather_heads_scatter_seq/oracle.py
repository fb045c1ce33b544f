"""The expected outputs: copies, bit by bit, and zeros for the padding."""

import torch
from torch import Tensor

from problems.catalog.p037_ulysses_gather_heads_scatter_seq.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, T_local, all_heads, head_size): all heads at the rank's positions, in the call's layout."""
    length = call.dims["T"]
    shard = -(-length // call.world_size)
    first = min(call.rank * shard, length)
    last = min(first + shard, length)
    every = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    seq_dim, head_dim = every[0]["seq_dim"], every[0]["head_dim"]
    kept = torch.cat([arguments["x"].narrow(seq_dim, first, last - first) for arguments in every], dim=head_dim)
    shape = list(kept.shape)
    shape[seq_dim] = shard
    out = torch.zeros(shape, dtype=call.dtype, device=call.device)
    out.narrow(seq_dim, 0, last - first).copy_(kept)
    return (out,)
