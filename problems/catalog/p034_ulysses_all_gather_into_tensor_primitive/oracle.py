"""The expected outputs: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p034_ulysses_all_gather_into_tensor_primitive.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (W*M, N): all ranks' rows in rank order."""
    return (torch.cat([make_inputs(call.at_rank(rank))["x"] for rank in range(call.world_size)]),)
