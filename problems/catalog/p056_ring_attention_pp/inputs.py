"""Arguments of one rank for one call."""

from problems import attention
from problems.groups import contiguous, strided
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`hidden_states` (B, S_local, D), weights of the stage, scalars and both groups.

    Ranks of later stages get hidden states of their own, which mean nothing: only the first stage can begin.
    """
    stages, contexts = call.dims["pp_size"], call.dims["cp_size"]
    stage = call.rank // contexts
    size = call.dims["D"] // call.dims["num_heads"]
    w_qkv, w_o = attention.draw_layer(
        call, f"stage {stage}", hidden=call.dims["D"], heads=call.dims["num_heads"], size=size
    )
    return {
        "hidden_states": call.normal("hidden_states", ("B", "S_local", "D")),
        "w_qkv": w_qkv,
        "w_o": w_o,
        "num_heads": call.dims["num_heads"],
        "softmax_scale": attention.draw_scale(call, size),
        "causal": True,
        "cp_group": contiguous(call.rank, world_size=call.world_size, group_size=contexts),
        "pp_group": strided(call.rank, world_size=call.world_size, group_size=stages),
    }
