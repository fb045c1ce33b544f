"""The expected outputs: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p036_ulysses_gather_seq_scatter_heads.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, S, heads_local, head_size): this rank's heads at all positions that are no padding."""
    every = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    seq_dim, head_dim = every[0]["seq_dim"], every[0]["head_dim"]
    heads = [arguments["x"].chunk(call.world_size, dim=head_dim)[call.rank] for arguments in every]
    out = torch.cat(heads, dim=seq_dim)
    # 0, and any multiple of W, mean that nothing was padded.
    unpadded = every[0]["unpadded_dim_size"]
    return (out.narrow(seq_dim, 0, unpadded) if unpadded % call.world_size else out,)
