"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p009_layernorm_backward.inputs import make_inputs
from problems.inputs.values import Call

_ROWS = 1024


def expected(call: Call) -> tuple[Tensor, ...]:
    """`d_gamma` and `d_beta` (N,): column sums over all ranks' rows, in blocks of rows."""
    d_gamma = torch.zeros(call.shape(("N",)), dtype=torch.float64, device=call.device)
    d_beta = torch.zeros_like(d_gamma)
    for rank in range(call.world_size):
        arguments = make_inputs(call.at_rank(rank))
        for x_hat, gradient in zip(arguments["X_hat"].split(_ROWS), arguments["dY"].split(_ROWS), strict=True):
            d_gamma += (gradient.double() * x_hat.double()).sum(dim=0)
            d_beta += gradient.double().sum(dim=0)
    return d_gamma, d_beta
