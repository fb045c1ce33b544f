"""Arguments of one rank for one call."""

from problems.inputs.copied_values import copied
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (B, T, num_heads, head_size), two dimension indices, and no group."""
    seq_dim, head_dim = map(int, call.setting("layout", "1/2").split("/"))
    x = call.normal("x", ("B", "T", "num_heads", "head_size")).movedim((1, 2), (seq_dim, head_dim)).contiguous()
    return {
        "x": copied(call, "x", x),
        "seq_dim": seq_dim,
        "head_dim": head_dim,
        "group": None,
    }
