"""Arguments of one rank for one call."""

from torch import Tensor

from problems.inputs.regime_values import in_regime, magnitude
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (B, C, 2 Lc), different on every rank, `weight` (C, 1, Kw), the same on all, and no group.

    Positions have long-tailed values, so that a halo squeezed into 8 bits under one scale per channel loses its
    smaller neighbours.
    """
    x = in_regime(call, "x", call.long_tailed("x", ("B", "C", "L")))
    own_ends = ends(call)
    x.unflatten(-1, (2, -1))[..., -own_ends.shape[-1] :] = own_ends
    return {
        "x": x,
        "weight": call.normal("weight", ("C", 1, "Kw"), shared=True) * magnitude(call),
        "group": None,
    }


def ends(call: Call) -> Tensor:
    """The last positions (B, C, 2, Kw - 1) of a rank's two chunks, drawn for themselves: a peer needs no others."""
    return in_regime(call, "ends", call.long_tailed("ends", ("B", "C", 2, call.dims["Kw"] - 1)))
