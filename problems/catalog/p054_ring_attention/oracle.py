"""The expected outputs, in float64, without a ring: its queries against all keys that they see."""

import torch
from torch import Tensor

from problems.catalog.p054_ring_attention.inputs import keys_and_values, make_inputs
from problems.families import attention
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, S_local, num_heads, head_dim): softmax attention over all positions, up to its own if causal."""
    own = make_inputs(call)
    seen = call.rank + 1 if own["causal"] else call.world_size
    shards = [keys_and_values(call.at_rank(rank)) for rank in range(seen)]
    keys, values = (attention.by_head(torch.cat(parts, dim=1)) for parts in zip(*shards, strict=True))
    scale = own["softmax_scale"] or call.dims["head_dim"] ** -0.5
    asked, far = attention.by_head(own["q"]), attention.are_far(call)
    out, _ = attention.attend(asked, keys, values, scale=scale, causal=own["causal"], far=far)
    return (attention.by_position(out, heads=call.dims["num_heads"]).contiguous(),)
