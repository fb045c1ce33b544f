"""The expected outputs: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p006_gather.inputs import make_inputs
from problems.catalog.p006_gather.spec import PROBLEM
from problems.inputs.values import Call
from problems.outputs.copies import comparing_bits


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out`: on the destination every rank's matrix at its place (W, M, N), elsewhere the own matrix (M, N)."""
    own = make_inputs(call)
    if call.rank != own["dst"]:
        return (own["tensor"],)
    return (torch.stack([make_inputs(call.at_rank(rank))["tensor"] for rank in range(call.world_size)]),)


compare = comparing_bits(PROBLEM)
