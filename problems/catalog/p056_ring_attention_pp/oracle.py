"""The expected outputs, in float64: all stages up to its own, for the positions that it sees."""

import torch
from torch import Tensor

from problems.catalog.p056_ring_attention_pp.inputs import hidden_states, number_of_heads, softmax_scale, weights
from problems.families import attention
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`stage_output` (B, S_local, D)."""
    own_stage, context = divmod(call.rank, call.dims["cp_size"])
    causal, shard = call.setting("causal", usual=True), call.dims["S_local"]
    contexts = range(context + 1 if causal else call.dims["cp_size"])
    tokens = torch.cat([hidden_states(call.at_rank(rank)) for rank in contexts], dim=1).double()
    scale, own, every = softmax_scale(call), slice(context * shard, (context + 1) * shard), slice(None)
    for stage in range(own_stage + 1):
        w_qkv, w_o = weights(call, stage=stage)
        asking = own if stage == own_stage else every
        heads = number_of_heads(call)
        tokens = attention.layer(
            tokens, w_qkv, w_o, heads=heads, scale=scale, asking=asking, causal=causal, far=attention.are_far(call)
        )
    # Beside a score of 0, a score far below leaves of a value less than any float32: what programs owe there is zero.
    return (tokens.masked_fill_(tokens.abs() < torch.finfo(torch.float32).tiny, 0.0),)
