"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families.fields import sized_by_field, with_zero_field
from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`x` (B, H, Ll) float32, the global sizes, the axes, the norm, and no group."""
    return {
        "x": in_regime(call, "x", with_zero_field(call, sized_by_field(call, _drawn(call)))),
        "s": (call.dims["H"], call.dims["L"]),
        "dim": call.setting("dim", (1, 2)),
        "norm": call.setting("norm", "ortho"),
        "group": None,
    }


def _drawn(call: Call) -> Tensor:
    return call.long_tailed("x", ("B", "H", "Ll"), dtype=torch.float32)
