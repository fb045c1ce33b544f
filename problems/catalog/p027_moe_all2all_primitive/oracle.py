"""What each rank owes: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p027_moe_all2all_primitive.inputs import make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): from every rank in order, the piece of its rows that is meant for this one."""
    pieces = []
    for rank in range(call.world_size):
        sent = make_inputs(call.at_rank(rank))
        pieces.append(sent["local_tensor"].split(sent["input_split_sizes"])[call.rank])
    return (torch.cat(pieces),)
