"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families.one_rank import in_regime_of_ranks
from problems.inputs.copying import copies, odd_values
from problems.inputs.regime_values import magnitude
from problems.inputs.values import Arguments, Call

TAPS = 9
LARGER = 2.0**20


def make_inputs(call: Call) -> Arguments:
    """A strip `x` (B, C, hl, wd) with outliers, and a layer that all ranks share, bias as large as its sums."""
    return {
        "x": strip(call),
        "weight": _shifting(call) if copies(call) else _weight(call),
        "bias": _bias(call),
        "stride": stride(call),
        "padding": 1,
        "group": None,
    }


def strip(call: Call) -> Tensor:
    """The rank's rows of the image, all that its neighbours need of it."""
    rows, columns = (stride(call) * call.dims[extent] for extent in ("hl", "wd"))
    if copies(call):
        return odd_values(call, "x", ("B", "C", rows, columns))
    drawn = call.long_tailed("x", ("B", "C", rows, columns))
    if call.setting("first_is_zero", None) == "channel":
        drawn[:, 0] = 0
    # At one end only: the results of a rank that has such a row no longer tell what became of its halo.
    ends = {"first": (0, 0), "last": (call.world_size - 1, -1)}
    rank, row = ends.get(call.setting("larger_row", "none"), (None, 0))
    if call.rank == rank:
        drawn[:, :, row] *= LARGER
    return drawn if _is_weight_zero(call) else in_regime_of_ranks(call, "x", drawn)


def _is_weight_zero(call: Call) -> bool:
    """Whether weights are what a regime has zero."""
    return bool(call.setting("zeros", "x and bias") == "weight")


def _weight(call: Call) -> Tensor:
    """The weight (C, C, 3, 3) of all ranks, which keeps sums of the size of the inputs."""
    std = (TAPS * call.dims["C"]) ** -0.5
    drawn = call.normal("weight", ("C", "C", 3, 3), std=std, shared=True) * magnitude(call)
    return torch.zeros_like(drawn) if _is_weight_zero(call) else drawn


def stride(call: Call) -> int:
    """How many pixels lie between two of the result: 1 in timed calls. Strips are so much larger."""
    return int(call.setting("stride", 1))


def _bias(call: Call) -> Tensor:
    """The bias (C,) of all ranks, on the scale of the sums."""
    bias = call.normal("bias", ("C",), shared=True)
    if call.setting("first_is_zero", None) == "bias":
        bias[0] = 0
    has_none = copies(call) or (call.setting("values", None) == "zero" and not _is_weight_zero(call))
    return torch.zeros_like(bias) if has_none else bias * magnitude(call) ** 2


def _shifting(call: Call) -> Tensor:
    """A weight (C, C, 3, 3) with which each channel is one of the image, moved a row up or down and perhaps aside."""
    channels = call.dims["C"]
    source = call.integers("regime's channel", (channels,), low=0, high=channels, shared=True)
    row = 2 * call.integers("regime's row", (channels,), low=0, high=2, shared=True)
    column = call.integers("regime's column", (channels,), low=0, high=3, shared=True)
    weight = torch.zeros(channels, channels, 3, 3, dtype=call.dtype, device=call.device)
    weight[torch.arange(channels, device=call.device), source, row, column] = 1.0
    return weight
