"""What each rank owes, in float64."""

import torch
from torch import Tensor

from problems.catalog.p022_clip_grad_norm_ep.inputs import make_inputs
from problems.values import Arguments, Call

_ROWS = 4096
"""Rows taken at a time, to keep float64 copies small."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`total_norm`, then the ordinary and the expert gradient (M, N), both clipped."""
    total = torch.zeros((), dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        for gradient, divisor in _gradients(make_inputs(call.at_rank(rank))):
            total += sum(rows.double().square().sum() for rows in gradient.split(_ROWS)) / divisor**2
    own = make_inputs(call)
    factor = min(1.0, own["max_norm"] / float(total.sqrt()))
    return total.sqrt(), *(gradient.float().mul_(factor / divisor) for gradient, divisor in _gradients(own))


def _gradients(arguments: Arguments) -> list[tuple[Tensor, int]]:
    """A rank's gradients with what they are divided by before anything else."""
    ordinary = [(gradient, 1) for gradient in arguments["non_ep_grad_tensors"]]
    return ordinary + [(gradient, arguments["ep_size"]) for gradient in arguments["ep_grad_tensors"]]
