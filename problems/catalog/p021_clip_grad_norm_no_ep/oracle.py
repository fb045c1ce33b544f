"""What each rank owes, in float64."""

import torch
from torch import Tensor

from problems.catalog.p021_clip_grad_norm_no_ep.inputs import make_inputs
from problems.values import Call

_ROWS = 4096
"""Rows taken at a time, to keep float64 copies small."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`total_norm` and the three clipped gradients (M, N)."""
    total = torch.zeros((), dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        for gradient in make_inputs(call.at_rank(rank))["grad_tensors"]:
            total += sum(rows.double().square().sum() for rows in gradient.split(_ROWS))
    own = make_inputs(call)
    factor = min(1.0, own["max_norm"] / float(total.sqrt()))
    # Through float32, rounded once to the run's dtype when compared: float64 would take four times the memory.
    return total.sqrt(), *(gradient.float().mul_(factor) for gradient in own["grad_tensors"])
