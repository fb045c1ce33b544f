"""Arguments of one rank for one call."""

from torch import Tensor

from problems.families import attention
from problems.inputs.copying import copies, odd_values
from problems.inputs.groups import contiguous, strided
from problems.inputs.regime_values import LARGEST, magnitude, owner
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`hidden_states` (B, S_local, D) of the context rank, weights of the tensor rank, scalars and both groups."""
    tensors, contexts = call.dims["tp_size"], call.dims["cp_size"]
    context, tensor = divmod(call.rank, tensors)
    w_qkv, w_o = weights(call, tensor=tensor)
    return {
        "hidden_states": hidden_states(call, context=context),
        "w_qkv": w_qkv,
        "w_o": w_o,
        "num_heads": number_of_heads(call),
        "softmax_scale": softmax_scale(call),
        "causal": call.setting("causal", usual=True),
        "tp_group": contiguous(call.rank, world_size=call.world_size, group_size=tensors),
        "cp_group": strided(call.rank, world_size=call.world_size, group_size=contexts),
    }


def hidden_states(call: Call, *, context: int) -> Tensor:
    """The positions (B, S_local, D) of a context rank."""
    drawn = call.normal(f"positions of context rank {context}", ("B", "S_local", "D"), shared=True)
    if copies(call):
        return attention.marked(drawn, None if context else odd_values(call, "regime's first", ("B", "D"), shared=True))
    drawn *= attention.positions_factor(call)
    return attention.zeroed(call, attention.with_ones(call, drawn))


def weights(call: Call, *, tensor: int) -> tuple[Tensor, Tensor]:
    """`w_qkv` (3*features, D) and `w_o` (D, features) of a tensor rank."""
    heads = number_of_heads(call) // call.dims["tp_size"]
    if copies(call):
        return _copying_weights(call, tensor=tensor, heads=heads)
    w_qkv, w_o = attention.draw_layer(
        call, f"tensor rank {tensor}", hidden=call.dims["D"], heads=heads, size=call.dims["features"] // heads
    )
    w_qkv = attention.for_positions(call, w_qkv)
    if call.setting("value_rows", None) == "huge":
        w_qkv[2 * call.dims["features"] :] *= LARGEST
    if call.setting("values", "") == "one_rank" and tensor != owner(call) % call.dims["tp_size"]:
        w_o.zero_()
    return attention.with_negative_scores(call, w_qkv, heads=heads), w_o * magnitude(call)


def _copying_weights(call: Call, *, tensor: int, heads: int) -> tuple[Tensor, Tensor]:
    """As `weights`; every channel of the output comes from one tensor rank."""
    hidden, size = call.dims["D"], call.dims["features"] // heads
    w_qkv, w_o = attention.copying_layer(call, f"tensor rank {tensor}", hidden=hidden, heads=heads, size=size)
    source = call.integers("regime's tensor ranks", (hidden, 1), low=0, high=call.dims["tp_size"], shared=True)
    return w_qkv, w_o * (source == tensor)


def softmax_scale(call: Call) -> float | None:
    """The scale that the call asks for, if it asks for one."""
    return attention.draw_scale(call, call.dims["D"] // number_of_heads(call))


def number_of_heads(call: Call) -> int:
    """As many as the size has; in a regime twice as many."""
    return call.dims["num_heads"] * int(call.setting("times_heads", 1))
