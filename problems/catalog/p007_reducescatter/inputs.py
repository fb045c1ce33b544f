"""Arguments of one rank for one call."""

import torch

from problems.families.zero_edges import in_edges
from problems.inputs.regime_values import in_regime
from problems.inputs.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`tensor` (W*M, N): long-tailed as gradients are, times a scale of the rank's own between 1/2 and 2."""
    scale = call.uniform("scale", (1, 1), low=-1, high=1, dtype=torch.float32).exp2_()
    tensor = call.long_tailed("tensor", ("WM", "N"), dtype=torch.float32).mul_(scale)
    return {"tensor": in_edges(call, in_regime(call, "tensor", tensor.to(call.dtype)), row_parts=call.world_size)}
