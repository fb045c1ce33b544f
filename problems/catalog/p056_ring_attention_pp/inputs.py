"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families import attention
from problems.inputs.copying import copies, odd_values
from problems.inputs.groups import contiguous, strided
from problems.inputs.regime_values import magnitude
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`hidden_states` (B, S_local, D), weights of the stage, scalars and both groups.

    Ranks of later stages get hidden states of their own, which mean nothing: only the first stage can begin.
    """
    stages, contexts = call.dims["pp_size"], call.dims["cp_size"]
    w_qkv, w_o = weights(call, stage=call.rank // contexts)
    return {
        "hidden_states": hidden_states(call),
        "w_qkv": w_qkv,
        "w_o": w_o,
        "num_heads": number_of_heads(call),
        "softmax_scale": softmax_scale(call),
        "causal": call.setting("causal", usual=True),
        "cp_group": contiguous(call.rank, world_size=call.world_size, group_size=contexts),
        "pp_group": strided(call.rank, world_size=call.world_size, group_size=stages),
    }


def hidden_states(call: Call) -> Tensor:
    """What the rank is given for its positions (B, S_local, D)."""
    drawn = call.normal("hidden_states", ("B", "S_local", "D"))
    if copies(call):
        is_first = call.rank % call.dims["cp_size"] == 0
        return attention.marked(drawn, odd_values(call, "regime's first", ("B", "D")) if is_first else None)
    drawn *= attention.positions_factor(call)
    is_second = call.rank >= call.dims["cp_size"]
    are_zero = is_second and call.setting("second_stage", None) == "zero"
    return torch.zeros_like(drawn) if are_zero else attention.zeroed(call, attention.with_ones(call, drawn))


def weights(call: Call, *, stage: int) -> tuple[Tensor, Tensor]:
    """`w_qkv` (3*D, D) and `w_o` (D, D) of a stage.

    Where a regime makes the first stage's output large or small, later queries and keys are what they usually are.
    """
    hidden, heads = call.dims["D"], number_of_heads(call)
    if copies(call):
        return attention.copying_layer(call, f"stage {stage}", hidden=hidden, heads=heads, size=hidden // heads)
    w_qkv, w_o = attention.draw_layer(call, f"stage {stage}", hidden=hidden, heads=heads, size=hidden // heads)
    if stage == 0:
        w_qkv = attention.for_positions(call, w_qkv)
        return attention.with_negative_scores(call, w_qkv, heads=heads), w_o * magnitude(call)
    w_qkv[: 2 * hidden] /= magnitude(call)
    return w_qkv, w_o


def softmax_scale(call: Call) -> float | None:
    """The scale that the call asks for, if it asks for one."""
    return attention.draw_scale(call, call.dims["D"] // number_of_heads(call))


def number_of_heads(call: Call) -> int:
    """As many as the size has; in a regime twice as many."""
    return call.dims["num_heads"] * int(call.setting("times_heads", 1))
