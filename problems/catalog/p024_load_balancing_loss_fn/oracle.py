"""What each rank owes, in float64."""

import torch
from torch import Tensor

from problems.catalog.p024_load_balancing_loss_fn.inputs import make_inputs
from problems.values import Call

_ROWS = 1 << 18
"""Rows taken at a time, to keep float64 copies small."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`loss`: the mean of all ranks' losses."""
    losses = [_local(call.at_rank(rank)) for rank in range(call.world_size)]
    return (torch.stack(losses).mean(),)


def _local(call: Call) -> Tensor:
    """The loss of one rank's tokens."""
    arguments = make_inputs(call)
    logits, experts = arguments["gate_logits"], arguments["num_experts"]
    means = torch.zeros(experts, dtype=torch.float64, device=call.device)
    counts = torch.zeros_like(means)
    for rows in logits.split(_ROWS):
        means += rows.double().softmax(dim=1).sum(dim=0)
        counts += rows.topk(arguments["top_k"], dim=1).indices.flatten().bincount(minlength=experts)
    return experts * (means * counts).sum() / logits.shape[0] ** 2
