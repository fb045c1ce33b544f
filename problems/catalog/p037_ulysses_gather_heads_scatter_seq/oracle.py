"""What each rank owes: copies, bit by bit, and zeros for the padding."""

import torch
from torch import Tensor

from problems.catalog.p037_ulysses_gather_heads_scatter_seq.inputs import make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, T_local, all_heads, head_size): all heads in rank order at this rank's positions."""
    shard, length = call.dims["T_local"], call.dims["T"]
    first = min(call.rank * shard, length)
    last = min(first + shard, length)
    out = torch.zeros(call.shape(("B", "T_local", "all_heads", "head_size")), dtype=call.dtype, device=call.device)
    heads = [make_inputs(call.at_rank(rank))["x"][:, first:last] for rank in range(call.world_size)]
    out[:, : last - first] = torch.cat(heads, dim=2)
    return (out,)
