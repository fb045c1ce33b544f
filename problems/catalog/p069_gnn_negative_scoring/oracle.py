"""The expected outputs: integers, without the sigmoid, which changes no order."""

import torch
from torch import Tensor

from problems.catalog.p069_gnn_negative_scoring.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`ranking` (P,): for every positive of every rank, one more than its negatives with a larger score."""
    parts = []
    for rank in range(call.world_size):
        scores = make_inputs(call.at_rank(rank))
        parts.append(1 + (scores["local_neg_scores"] > scores["local_pos_scores"][:, None]).sum(dim=1))
    return (torch.cat(parts),)
