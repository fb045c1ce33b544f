"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.regime_values import in_regime, magnitude
from problems.values import Arguments, Call

TAPS = 9


def make_inputs(call: Call) -> Arguments:
    """A strip `x` (B, C, hl, wd) with outliers, and a layer that all ranks share, bias as large as its sums."""
    channels = call.dims["C"]
    return {
        "x": strip(call),
        "weight": call.normal("weight", ("C", "C", 3, 3), std=(TAPS * channels) ** -0.5, shared=True),
        "bias": _bias(call),
        "stride": stride(call),
        "padding": 1,
        "group": None,
    }


def strip(call: Call) -> Tensor:
    """The rank's rows of the image, all that its neighbours need of it."""
    rows, columns = (stride(call) * call.dims[extent] for extent in ("hl", "wd"))
    return in_regime(call, "x", call.long_tailed("x", ("B", "C", rows, columns)))


def stride(call: Call) -> int:
    """How many pixels lie between two of the result: 1 in timed calls. Strips are so much larger."""
    return int(call.setting("stride", 1))


def _bias(call: Call) -> Tensor:
    """The bias (C,) of all ranks, on the scale of the sums."""
    bias = call.normal("bias", ("C",), shared=True)
    return torch.zeros_like(bias) if call.setting("values", None) == "zero" else bias * magnitude(call)
