"""Arguments of one rank for one call."""

import torch

from problems.values import Arguments, Call

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
    video = call.normal("input", ("B", "Ci", "Ti", "Hi", "Wi"), dtype=torch.float32).mul_(scale)
    video *= call.scales("brightness", ("B", 1, "Ti", "Hi", "Wi"), spread=0.5, shared=True)
    video[..., call.permutation("glare", call.dims["Wi"], shared=True)[: call.dims["Wi"] // COLUMNS]] *= GLARE
    return {
        "input": video.to(call.dtype),
        "weight": call.normal("weight", ("Co", "Ci", "Kk", "Kk", "Kk"), std=products**-0.5),
        "bias": call.normal("bias", ("Co",), std=0.25, shared=True),
        "stride": 1,
        "padding": 0,
        "dilation": 1,
        "groups": 1,
        "group": None,
    }
