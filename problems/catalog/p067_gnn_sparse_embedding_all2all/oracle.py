"""The expected outputs: copies, bit by bit."""

import torch
from torch import Tensor

from problems.catalog.p067_gnn_sparse_embedding_all2all.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`recv_idx` and `recv_value`: rank after rank, the pairs whose id is this rank's, in the sender's order."""
    ids, values = [], []
    for rank in range(call.world_size):
        sent = make_inputs(call.at_rank(rank))
        is_own = sent["idx"] % call.world_size == call.rank
        ids.append(sent["idx"][is_own])
        values.append(sent["value"][is_own])
    return torch.cat(ids), torch.cat(values)
