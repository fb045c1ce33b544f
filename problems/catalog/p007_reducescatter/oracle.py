"""The expected outputs, in float64."""

from collections.abc import Iterator

import torch
from torch import Tensor

from problems.catalog.p007_reducescatter.inputs import make_inputs
from problems.inputs.values import Call

ROUNDINGS = 0
"""Inputs are added as they are."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): the rank's row block of the sum over all ranks."""
    total = torch.zeros(call.shape(("M", "N")), dtype=torch.float64, device=call.device)
    for addend in addends(call):
        total += addend
    return (total,)


def addends(call: Call) -> Iterator[Tensor]:
    """What every rank adds to the output."""
    for rank in range(call.world_size):
        yield make_inputs(call.at_rank(rank))["tensor"].chunk(call.world_size)[call.rank]
