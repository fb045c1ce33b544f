"""Arguments of one rank for one call."""

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (B, T, num_heads, head_size), two dimension indices, and no group."""
    return {
        "x": call.normal("x", ("B", "T", "num_heads", "head_size")),
        "seq_dim": 1,
        "head_dim": 2,
        "group": None,
    }
