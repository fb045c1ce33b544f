"""The expected outputs: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p035_ulysses_all_gather_variable_primitive.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out`: all ranks' shares in rank order."""
    every = [make_inputs(call.at_rank(rank)) for rank in range(call.world_size)]
    return (torch.cat([arguments["x"] for arguments in every], dim=every[0]["gather_dim"]),)
