"""Arguments of one rank for one call."""

from torch import Tensor

from problems.values import Arguments, Call

TAPS = 9


def make_inputs(call: Call) -> Arguments:
    """A strip `x` (B, C, hl, wd) with outliers, and a layer that all ranks share, bias as large as its sums."""
    channels = call.dims["C"]
    return {
        "x": strip(call),
        "weight": call.normal("weight", ("C", "C", 3, 3), std=(TAPS * channels) ** -0.5, shared=True),
        "bias": call.normal("bias", ("C",), shared=True),
        "stride": 1,
        "padding": 1,
        "group": None,
    }


def strip(call: Call) -> Tensor:
    """The rank's rows of the image, all that its neighbours need of it."""
    return call.long_tailed("x", ("B", "C", "hl", "wd"))
