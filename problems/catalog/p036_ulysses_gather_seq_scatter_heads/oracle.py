"""What each rank owes: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p036_ulysses_gather_seq_scatter_heads.inputs import make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, S, heads_local, head_size): this rank's heads at all positions that are no padding."""
    own = slice(call.rank * call.dims["heads_local"], (call.rank + 1) * call.dims["heads_local"])
    every = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    out = torch.cat([arguments["x"][:, :, own] for arguments in every], dim=1)
    # 0, and any multiple of W, mean that nothing was padded.
    unpadded = every[0]["unpadded_dim_size"]
    return (out[:, :unpadded] if unpadded % call.world_size else out,)
