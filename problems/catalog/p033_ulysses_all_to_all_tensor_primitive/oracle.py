"""The expected outputs: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p033_ulysses_all_to_all_tensor_primitive.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out`: piece `call.rank` of every rank's matrix, joined in rank order."""
    pieces = []
    for rank in range(call.world_size):
        sent = make_inputs(call.at_rank(rank))
        pieces.append(sent["x"].chunk(call.world_size, dim=sent["scatter_dim"])[call.rank])
    return (torch.cat(pieces, dim=sent["gather_dim"]),)
