"""The expected outputs: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p008_alltoall.inputs import make_inputs
from problems.catalog.p008_alltoall.spec import PROBLEM
from problems.inputs.values import Call
from problems.outputs.copies import comparing_bits


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (W, M, N): slice `call.rank` of every rank's stack, in rank order."""
    return (torch.stack([make_inputs(call.at_rank(rank))["tensor"][call.rank] for rank in range(call.world_size)]),)


compare = comparing_bits(PROBLEM)
