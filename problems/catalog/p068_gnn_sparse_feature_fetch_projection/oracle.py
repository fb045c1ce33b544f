"""The expected outputs: the rows that it asks for, made one by one, and one product in float64."""

import torch
from torch import Tensor

from problems.catalog.p068_gnn_sparse_feature_fetch_projection.inputs import projection, queries, rows_of
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (Q, D): the rank's queries through its own matrix."""
    ids, matrix = queries(call), projection(call).double()
    owner = ids // call.dims["sh"]
    out = torch.empty(call.shape(("Q", "D")), dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        asked = (owner == rank).nonzero()[:, 0]
        local = ids[asked] - rank * call.dims["sh"]
        out[asked] = rows_of(call.at_rank(rank), local).double() @ matrix
    return (out,)
