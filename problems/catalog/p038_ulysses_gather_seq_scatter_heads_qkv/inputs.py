"""Arguments of one rank for one call."""

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`qkv_tensor` (B, T, qkv), the dimension of positions, no group, the number of true positions, and True."""
    return {
        "qkv_tensor": call.normal("qkv_tensor", ("B", "T", "qkv")),
        "seq_dim": 1,
        "group": None,
        "unpadded_dim_size": _unpadded(call) or None,
        "restore_shape": True,
    }


def _unpadded(call: Call) -> int:
    """The true number of positions, 0 where it is not said; drawn where the size leaves it open."""
    if "unpadded_dim_size" in call.dims:
        return call.dims["unpadded_dim_size"]
    padded = call.world_size * call.dims["T"]
    padding = int(call.integers("padding", (1,), low=-1, high=call.world_size, shared=True))
    return 0 if padding < 0 else padded - padding
