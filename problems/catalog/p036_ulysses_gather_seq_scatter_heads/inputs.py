"""Arguments of one rank for one call."""

from problems.inputs.copied_values import copied
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (B, T, num_heads, head_size), two dimension indices, no group, and the number of true positions."""
    seq_dim, head_dim = map(int, call.setting("layout", "1/2").split("/"))
    heads = int(call.setting("heads_of_a_rank", 0)) * call.world_size or call.dims["num_heads"]
    drawn = call.normal("x", ("B", "T", heads, "head_size"))
    if call.setting("front", None) == "zero":
        if heads > call.world_size:
            drawn[:, :, :: heads // call.world_size] = 0
        drawn[:, 1::2, :, :8] = 0
    x = drawn.movedim((1, 2), (seq_dim, head_dim)).contiguous()
    return {
        "x": copied(call, "x", x),
        "seq_dim": seq_dim,
        "head_dim": head_dim,
        "group": None,
        "unpadded_dim_size": _unpadded(call),
    }


def _unpadded(call: Call) -> int:
    """The size's own number; else, where it leaves that open, a number whose padding fills the last shard at most.

    Zero stands for a multiple of W in one draw of W, so that both ways of saying "nothing to cut" occur.
    """
    if (positions := call.setting("positions", None)) is not None:
        return _in_regime(call, positions)
    if "unpadded_dim_size" in call.dims and call.setting("heads_of_a_rank", None) is None:
        return call.dims["unpadded_dim_size"]
    padding, as_zero = call.integers("unpadded", (2,), low=0, high=call.world_size, shared=True).tolist()
    return 0 if padding == as_zero == 0 else call.world_size * call.dims["T"] - padding


def _in_regime(call: Call, positions: str) -> int:
    """A number within the first shard that is no multiple of W, or a multiple of W below that of all positions."""
    is_multiple = positions == "multiple"
    high = max(2, call.dims["T"]) if is_multiple else (call.dims["T"] - 1) // call.world_size + 1
    steps = int(call.integers("regime's positions", (), low=int(is_multiple), high=high, shared=True))
    return call.world_size * steps + (not is_multiple)
