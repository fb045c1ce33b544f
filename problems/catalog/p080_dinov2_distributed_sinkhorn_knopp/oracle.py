"""What each rank owes, in float64, by scalings of prototypes and samples; one rank's logits at a time."""

import torch
from torch import Tensor

from problems.catalog.p080_dinov2_distributed_sinkhorn_knopp.inputs import make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`q` (b, Kp), whose rows sum to 1.

    The result is diag(samples) exp(x / temperature) diag(prototypes): the first total and the counts cancel.
    """
    everyone = [call.at_rank(rank) for rank in range(call.world_size)]
    samples = [torch.ones(call.shape(("b", 1)), dtype=torch.float64, device=call.device) for _ in everyone]
    prototypes = torch.ones(call.dims["Kp"], dtype=torch.float64, device=call.device)
    for _ in range(call.dims["rounds"]):
        masses = [(_weights(one) * scale).sum(0) for one, scale in zip(everyone, samples, strict=True)]
        prototypes = 1 / torch.stack(masses).sum(0)
        samples = [1 / (_weights(one) @ prototypes)[:, None] for one in everyone]
    return (_weights(call).mul_(prototypes).mul_(samples[call.rank]),)


def _weights(call: Call) -> Tensor:
    """exp(x / temperature) (b, Kp) of one rank."""
    arguments = make_inputs(call)
    return (arguments["teacher_output"].double() / arguments["teacher_temp"]).exp_()
