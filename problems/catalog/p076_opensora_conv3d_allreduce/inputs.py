"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families.one_rank import in_regime_of_ranks
from problems.inputs.regime_values import is_exact, magnitude, owner
from problems.inputs.values import Arguments, Call

GLARE = 20.0
COLUMNS = 60
"""Of so many columns one is glaring."""


def make_inputs(call: Call) -> Arguments:
    """The rank's input channels and its slice of the weights, and a bias a quarter as large as the sums.

    Brightness varies from place to place, equally for all channels and ranks, and a few columns are glaring, as windows
    in a video are: partial results then have elements that one 8-bit scale per row cannot hold.
    """
    kernel = call.dims["Kk"]
    products = call.world_size * call.dims["Ci"] * kernel**3
    scale = call.uniform("scale", (1,), low=-1, high=1, dtype=torch.float32).exp2_()
    extents = _extents(call)
    video = call.normal("input", ("B", "Ci", *extents), dtype=torch.float32).mul_(scale)
    video *= call.scales("brightness", ("B", 1, *extents), spread=0.5, shared=True)
    video[..., call.permutation("glare", extents[-1], shared=True)[: extents[-1] // COLUMNS]] *= GLARE
    if call.setting("first_is_zero", None) == "channel":
        video[:, 0] = 0
    if call.setting("first_is_zero", None) == "edges":
        video[..., [0, -1], :] = 0
        video[..., [0, -1]] = 0
    weight = call.normal("weight", ("Co", "Ci", "Kk", "Kk", "Kk"), std=products**-0.5) * magnitude(call)
    if _zeros(call) == "weight" or (_zeros(call) == "weight on one" and call.rank == owner(call)):
        weight = torch.zeros_like(weight)
    video = video.to(call.dtype)
    return {
        "input": in_regime_of_ranks(call, "input", video) if _zeros(call) == "input and bias" else video,
        "weight": _single_taps(call, weight) if is_exact(call) else weight,
        "bias": _bias(call),
        "stride": call.setting("stride", 1),
        "padding": call.setting("padding", 0),
        "dilation": call.setting("dilation", 1),
        "groups": 1,
        "group": None,
    }


def _zeros(call: Call) -> str:
    """What is zero where a regime has all values zero."""
    return str(call.setting("zeros", "input and bias"))


def _extents(call: Call) -> list[int]:
    """Frames, rows and columns of the input: what the result needs."""
    reach = call.setting("dilation", 1) * (call.dims["Kk"] - 1) + 1 - 2 * call.setting("padding", 0)
    return [call.setting("stride", 1) * (call.dims[extent] - 1) + reach for extent in ("To", "Ho", "Wo")]


def _bias(call: Call) -> Tensor:
    """The bias (Co,) of all ranks, on the scale of the sums; none where those are zero or have no rounding error."""
    bias = call.normal("bias", ("Co",), std=0.25, shared=True)
    if call.setting("first_is_zero", None) == "bias":
        bias[0] = 0
    has_none = is_exact(call) or (call.setting("values", None) == "zero" and _zeros(call) == "input and bias")
    return torch.zeros_like(bias) if has_none else bias * magnitude(call) ** 2


def _single_taps(call: Call, weight: Tensor) -> Tensor:
    """A weight of the shape of `weight`, the same on all ranks, with a single 1 per output channel."""
    taps = weight[0].numel()
    picked = call.integers("regime's picked taps", (len(weight), 1), low=0, high=taps, shared=True)
    return torch.zeros_like(weight.flatten(1)).scatter_(1, picked, 1).view(weight.shape)
