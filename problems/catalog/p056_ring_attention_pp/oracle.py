"""What each rank owes, in float64: all stages up to its own, for the positions up to its own."""

import torch
from torch import Tensor

from problems import attention
from problems.catalog.p056_ring_attention_pp.inputs import hidden_states, softmax_scale, weights
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`stage_output` (B, S_local, D)."""
    own_stage, context = divmod(call.rank, call.dims["cp_size"])
    tokens = torch.cat([hidden_states(call.at_rank(rank)) for rank in range(context + 1)], dim=1).double()
    scale = softmax_scale(call)
    for stage in range(own_stage + 1):
        w_qkv, w_o = weights(call, stage=stage)
        last = call.dims["S_local"] if stage == own_stage else tokens.shape[1]
        tokens = attention.layer(tokens, w_qkv, w_o, heads=call.dims["num_heads"], scale=scale, last=last)
    return (tokens,)
