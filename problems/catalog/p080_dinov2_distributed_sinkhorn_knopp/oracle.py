"""The expected outputs, in float64, by scalings of prototypes and samples; one rank's exponentials at a time."""

import torch
from torch import Tensor

from problems.catalog.p080_dinov2_distributed_sinkhorn_knopp.inputs import logits, rounds, temperature
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`q` (b, Kp), whose rows sum to 1.

    The result is diag(samples) exp(x / temperature) diag(1 / masses): the first total and the counts cancel.
    """
    ranks = [logits(call.at_rank(rank)) for rank in range(call.world_size)]
    masses = torch.zeros(call.dims["Kp"], dtype=torch.float64, device=call.device)
    for one in ranks:
        masses += _weights(call, one).sum(dim=0)
    for _ in range(rounds(call) - 1):
        prototypes = 1 / masses
        masses.zero_()
        for one in ranks:
            weights = _weights(call, one)
            samples = 1 / (weights @ prototypes)
            masses += samples @ weights
    own = _weights(call, ranks[call.rank]).div_(masses)
    return (own.div_(own.sum(dim=1, keepdim=True)),)


def _weights(call: Call, x: Tensor) -> Tensor:
    """exp(x / temperature) in float64."""
    # A temperature with a dimension widens x within the division, without a pass for it.
    return torch.div(x, torch.tensor([temperature(call)], dtype=torch.float64, device=x.device)).exp_()
