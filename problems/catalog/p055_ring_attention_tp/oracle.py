"""The expected outputs, in float64: its positions against all that they see, heads of all tensor ranks summed."""

import torch
from torch import Tensor

from problems.catalog.p055_ring_attention_tp.inputs import hidden_states, number_of_heads, softmax_scale, weights
from problems.families import attention
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, S_local, D)."""
    tensors = call.dims["tp_size"]
    own = call.rank // tensors
    causal, shard = call.setting("causal", usual=True), call.dims["S_local"]
    contexts = range(own + 1 if causal else call.dims["cp_size"])
    tokens = torch.cat([hidden_states(call, context=context) for context in contexts], dim=1).double()
    scale, asking = softmax_scale(call), slice(own * shard, (own + 1) * shard)
    out = torch.zeros(call.shape(("B", "S_local", "D")), dtype=torch.float64, device=call.device)
    for tensor in range(tensors):
        w_qkv, w_o = weights(call, tensor=tensor)
        heads = number_of_heads(call) // tensors
        out += attention.layer(
            tokens, w_qkv, w_o, heads=heads, scale=scale, asking=asking, causal=causal, far=attention.are_far(call)
        )
    # Beside a score of 0, a score far below leaves of a value less than any float32: what programs owe there is zero.
    return (out.masked_fill_(out.abs() < torch.finfo(torch.float32).tiny, 0.0),)
