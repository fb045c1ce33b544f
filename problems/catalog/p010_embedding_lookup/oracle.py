"""The expected outputs: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p010_embedding_lookup.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (M, N): owner after owner, the rows asked of it in the order of the list."""
    rows = call.dims["M"]
    indices = make_inputs(call)["indices"]
    pieces = []
    for owner in range(call.world_size):
        asked = indices[indices // rows == owner]
        pieces.append(make_inputs(call.at_rank(owner))["local_shard"][asked - owner * rows])
    return (torch.cat(pieces),)
