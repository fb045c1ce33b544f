"""Arguments of one rank for one call."""

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (B, T, num_heads, head_size), two dimension indices, no group, and the number of true positions."""
    return {
        "x": call.normal("x", ("B", "T", "num_heads", "head_size")),
        "seq_dim": 1,
        "head_dim": 2,
        "group": None,
        "unpadded_dim_size": _unpadded(call),
    }


def _unpadded(call: Call) -> int:
    """The size's own number; else, where it leaves that open, a number whose padding fills the last shard at most.

    Zero stands for a multiple of W in one draw of W, so that both ways of saying "nothing to cut" occur.
    """
    if "unpadded_dim_size" in call.dims:
        return call.dims["unpadded_dim_size"]
    padding, as_zero = call.integers("unpadded", (2,), low=0, high=call.world_size, shared=True).tolist()
    return 0 if padding == as_zero == 0 else call.world_size * call.dims["T"] - padding
