"""Arguments of one rank for one call."""

from problems import attention
from problems.groups import contiguous, strided
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`hidden_states` (B, S_local, D) of the context rank, weights of the tensor rank, scalars and both groups."""
    tensors, contexts = call.dims["tp_size"], call.dims["cp_size"]
    context, tensor = divmod(call.rank, tensors)
    size = call.dims["D"] // call.dims["num_heads"]
    heads = call.dims["num_heads"] // tensors
    w_qkv, w_o = attention.draw_layer(call, f"tensor rank {tensor}", hidden=call.dims["D"], heads=heads, size=size)
    return {
        "hidden_states": call.normal(f"positions of context rank {context}", ("B", "S_local", "D"), shared=True),
        "w_qkv": w_qkv,
        "w_o": w_o,
        "num_heads": call.dims["num_heads"],
        "softmax_scale": attention.draw_scale(call, size),
        "causal": True,
        "tp_group": contiguous(call.rank, world_size=call.world_size, group_size=tensors),
        "cp_group": strided(call.rank, world_size=call.world_size, group_size=contexts),
    }
