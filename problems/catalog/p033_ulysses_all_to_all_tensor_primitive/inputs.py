"""Arguments of one rank for one call."""

from problems.inputs.copied_values import copied
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (M, N), the dimension to cut, the dimension to join, and no group."""
    scatter_dim, gather_dim = _dims(call)
    return {
        "x": copied(call, "x", call.normal("x", (_extent(call, "M", "rows"), _extent(call, "N", "columns")))),
        "scatter_dim": scatter_dim,
        "gather_dim": gather_dim,
        "group": None,
    }


def _extent(call: Call, symbol: str, name: str) -> int:
    """The size's own, or in a regime another multiple of the number of ranks."""
    usual = call.dims[symbol]
    if (rows := call.setting("rows", None)) is not None:
        usual = 2 * usual if (rows == "twice") == (name == "rows") else usual // 2
    return int(call.setting(f"multiple_of_{name}", 0)) * call.world_size or usual


def _dims(call: Call) -> tuple[int, int]:
    """The dimension to cut and the one to join; in a regime both are that which timed calls join."""
    joined = 1 - _scatter_dim(call)
    return (joined, joined) if call.setting("one_dimension", usual=False) else (1 - joined, joined)


def _scatter_dim(call: Call) -> int:
    """The size's own direction, or one drawn for the call where the size leaves it open."""
    if "scatter_dim" in call.dims:
        return call.dims["scatter_dim"]
    return int(call.integers("scatter_dim", (1,), low=0, high=2, shared=True))
