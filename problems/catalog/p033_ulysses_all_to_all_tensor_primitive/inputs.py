"""Arguments of one rank for one call."""

from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (M, N), the dimension to cut, the dimension to join, and no group."""
    scatter_dim = _scatter_dim(call)
    return {
        "x": call.normal("x", ("M", "N")),
        "scatter_dim": scatter_dim,
        "gather_dim": 1 - scatter_dim,
        "group": None,
    }


def _scatter_dim(call: Call) -> int:
    """The size's own direction, or one drawn for the call where the size leaves it open."""
    if "scatter_dim" in call.dims:
        return call.dims["scatter_dim"]
    return int(call.integers("scatter_dim", (1,), low=0, high=2, shared=True))
