"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families.one_rank import in_regime_of_ranks
from problems.inputs.regime_values import magnitude
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (B, C, 2 Lc), different on every rank, `weight` (C, 1, Kw), the same on all, and no group.

    Positions have long-tailed values, so that a halo squeezed into 8 bits under one scale per channel loses its
    smaller neighbours.
    """
    x = _in_regime(call, "x", call.long_tailed("x", ("B", "C", "L")))
    own_ends = ends(call)
    x.unflatten(-1, (2, -1))[..., -own_ends.shape[-1] :] = own_ends
    if call.setting("first_channel", "usual") == "zero":
        x[:, 0] = 0
    return {
        "x": x,
        "weight": _filters(call),
        "group": None,
    }


def _filters(call: Call) -> Tensor:
    """The filters (C, 1, Kw); in some regimes that of the first channel has zeros."""
    weight = call.normal("weight", ("C", 1, "Kw"), shared=True) * magnitude(call)
    half = (call.dims["Kw"] + 1) // 2
    zeros = {"zero": slice(None), "begins_zero": slice(half), "ends_zero": slice(-half, None)}
    if (kind := call.setting("first_filter", "usual")) in zeros:
        weight[0, 0, zeros[kind]] = 0
    return weight if call.setting("zeros", "x") == "x" else torch.zeros_like(weight)


def _in_regime(call: Call, name: str, tensor: Tensor) -> Tensor:
    """Values of x as the call's regime has them; where filters are zero, as they are."""
    return in_regime_of_ranks(call, name, tensor) if call.setting("zeros", "x") == "x" else tensor


def ends(call: Call) -> Tensor:
    """The last positions (B, C, 2, Kw - 1) of a rank's two chunks, drawn for themselves: a peer needs no others."""
    drawn = _in_regime(call, "ends", call.long_tailed("ends", ("B", "C", 2, call.dims["Kw"] - 1)))
    if call.setting("first_channel", "usual") == "zero":
        drawn[:, 0] = 0
    return drawn
