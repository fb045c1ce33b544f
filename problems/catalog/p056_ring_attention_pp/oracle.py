"""What each rank owes, in float64: all stages up to its own, for the positions up to its own."""

import torch
from torch import Tensor

from problems import attention
from problems.catalog.p056_ring_attention_pp.inputs import make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`stage_output` (B, S_local, D)."""
    contexts = call.dims["cp_size"]
    own_stage, context = divmod(call.rank, contexts)
    tokens = torch.cat([make_inputs(call.at_rank(rank))["hidden_states"] for rank in range(context + 1)], dim=1)
    for stage in range(own_stage + 1):
        layer = make_inputs(call.at_rank(stage * contexts))
        tokens = attention.layer(
            tokens,
            layer["w_qkv"],
            layer["w_o"],
            heads=call.dims["num_heads"],
            scale=layer["softmax_scale"],
            last=call.dims["S_local"] if stage == own_stage else tokens.shape[1],
        )
    return (tokens,)
