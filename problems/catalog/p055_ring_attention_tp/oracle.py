"""What each rank owes, in float64: its positions against all earlier ones, heads of all tensor ranks summed."""

import torch
from torch import Tensor

from problems import attention
from problems.catalog.p055_ring_attention_tp.inputs import make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, S_local, D)."""
    tensors = call.dims["tp_size"]
    context = call.rank // tensors
    earlier = [make_inputs(call.at_rank(rank * tensors))["hidden_states"] for rank in range(context + 1)]
    tokens = torch.cat(earlier, dim=1)
    out = torch.zeros(call.shape(("B", "S_local", "D")), dtype=torch.float64, device=call.device)
    for rank in range(context * tensors, (context + 1) * tensors):
        own = make_inputs(call.at_rank(rank))
        out += attention.layer(
            tokens,
            own["w_qkv"],
            own["w_o"],
            heads=call.dims["num_heads"] // tensors,
            scale=own["softmax_scale"],
            last=call.dims["S_local"],
        )
    return (out,)
