"""Copies of parameters that only rank 0's elements count of, where another rank's look like them at a glance."""

import torch
from torch import Tensor

from problems.families import mlp_step
from problems.inputs.values import Call


def parameters(call: Call) -> list[Tensor]:
    """W1, b1, W2, b2 of this rank; in a regime rank 0's, on other ranks in another order."""
    if call.setting("copies", None) is None:
        return mlp_step.parameters(call)
    return [_moved_on(parameter, by=call.rank) for parameter in mlp_step.parameters(call.at_rank(0))]


def _moved_on(parameter: Tensor, *, by: int) -> Tensor:
    """`parameter` with all elements but the first and the last moved on, so that ends, sums and norms are the same."""
    flat = parameter.flatten()
    return torch.cat([flat[:1], flat[1:-1].roll(by), flat[-1:]]).view(parameter.shape)
