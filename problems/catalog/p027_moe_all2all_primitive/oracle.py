"""The expected outputs: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p027_moe_all2all_primitive.inputs import make_inputs, row_counts
from problems.catalog.p027_moe_all2all_primitive.spec import PROBLEM
from problems.inputs.values import Call
from problems.outputs.copies import comparing_bits


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): from every rank in order, the piece of its rows that is meant for this one."""
    pieces = []
    for rank, sizes in enumerate(row_counts(call)):
        rows = make_inputs(call.at_rank(rank))["local_tensor"]
        pieces.append(rows.split(sizes)[call.rank])
    return (torch.cat(pieces),)


compare = comparing_bits(PROBLEM)
