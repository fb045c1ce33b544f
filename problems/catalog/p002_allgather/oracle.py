"""The expected outputs: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p002_allgather.inputs import make_inputs
from problems.catalog.p002_allgather.spec import PROBLEM
from problems.inputs.values import Call
from problems.outputs.copies import comparing_bits


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (W, M, N): every rank's matrix at its rank."""
    return (torch.stack([make_inputs(call.at_rank(rank))["tensor"] for rank in range(call.world_size)]),)


compare = comparing_bits(PROBLEM)
