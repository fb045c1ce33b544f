"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.regime_values import in_regime
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (B, C, Hl, K) complex64, the global sizes, the axes, the norm, and no group."""
    rows = slice(call.rank * call.dims["Hl"], (call.rank + 1) * call.dims["Hl"])
    # One field at a time: only a rank's rows of the whole spectrum are kept.
    parts = [torch.fft.rfft2(field, norm="ortho")[..., rows, :].clone() for field in fields(call).unbind()]
    return {
        "x": torch.stack(parts),
        "s": call.setting("s", (call.dims["H"], call.dims["L"])),
        "dim": call.setting("dim", (-2, -1)),
        "norm": call.setting("norm", "ortho"),
        "group": None,
    }


def fields(call: Call) -> Tensor:
    """The real fields (B, C, H, L) in float32 that the spectrum is of: long-tailed, the same on all ranks."""
    drawn = call.long_tailed("fields", ("B", "C", "H", "L"), dtype=torch.float32, shared=True)
    return in_regime(call, "fields", drawn)
