"""Arguments of one rank for one call."""

from problems.values import Arguments, Call

TAPS = 9


def make_inputs(call: Call) -> Arguments:
    """A strip `x` (B, C, hl, wd) with outliers, and a layer that all ranks share, bias as large as its sums."""
    channels = call.dims["C"]
    return {
        "x": call.long_tailed("x", ("B", "C", "hl", "wd")),
        "weight": call.normal("weight", ("C", "C", 3, 3), std=(TAPS * channels) ** -0.5, shared=True),
        "bias": call.normal("bias", ("C",), shared=True),
        "stride": 1,
        "padding": 1,
        "group": None,
    }
