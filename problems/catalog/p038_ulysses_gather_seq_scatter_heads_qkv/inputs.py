"""Arguments of one rank for one call."""

from problems.inputs.copied_values import copied
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`qkv_tensor` (B, T, qkv), the dimension of positions, no group, the number of true positions, and True."""
    seq_dim = call.setting("seq_dim", 1)
    features = 3 * int(call.setting("part", 0)) * call.world_size or call.dims["qkv"]
    qkv_tensor = call.normal("qkv_tensor", ("B", "T", features)).movedim(1, seq_dim).contiguous()
    return {
        "qkv_tensor": copied(call, "qkv_tensor", qkv_tensor),
        "seq_dim": seq_dim,
        "group": None,
        "unpadded_dim_size": _unpadded(call) or call.setting("nothing_to_cut", None),
        "restore_shape": call.setting("restore_shape", usual=True),
    }


def _unpadded(call: Call) -> int:
    """The true number of positions, 0 where it is not said; drawn where the size leaves it open."""
    if (positions := call.setting("positions", None)) is not None:
        return _in_regime(call, positions)
    if "unpadded_dim_size" in call.dims and call.setting("part", None) is None:
        return call.dims["unpadded_dim_size"]
    padded = call.world_size * call.dims["T"]
    padding = int(call.integers("padding", (1,), low=-1, high=call.world_size, shared=True))
    return 0 if padding < 0 else padded - padding


def _in_regime(call: Call, positions: str) -> int:
    """0; a number that is no multiple of W, if few within the first shard; or a multiple of W below all positions."""
    if positions == "all":
        return 0
    is_multiple, length = positions == "multiple", call.dims["T"]
    high = {"multiple": max(2, length), "few": (length - 1) // call.world_size + 1, "any": length}[positions]
    steps = int(call.integers("regime's positions", (), low=int(is_multiple), high=high, shared=True))
    beyond = call.integers("regime's beyond", (), low=1, high=call.world_size, shared=True) if positions == "any" else 1
    return call.world_size * steps + (0 if is_multiple else int(beyond))
