"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families.fields import sized_by_field, with_zero_field
from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call

AXES = {"none": (1, 2), "complete": (-2, 2), "sharded": (1, -1), "both": (-2, -1)}
"""The complete axis and the sharded one, by which of them are counted from the end."""


def make_inputs(call: Call) -> Arguments:
    """`x` (B, H, Ll) float32, the global sizes, the axes, the norm, and no group."""
    return {
        "x": in_regime(call, "x", with_zero_field(call, sized_by_field(call, _drawn(call)))),
        "s": (call.dims["H"], call.dims["L"]),
        "dim": AXES[call.setting("from_end", "none")],
        "norm": call.setting("norm", "ortho"),
        "group": None,
    }


def _drawn(call: Call) -> Tensor:
    return call.long_tailed("x", ("B", "H", "Ll"), dtype=torch.float32)
