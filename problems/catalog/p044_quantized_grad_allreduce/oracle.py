"""The expected outputs: the quantisation as the card has it, the mean in float64."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from problems.catalog.p044_quantized_grad_allreduce.inputs import make_inputs
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (n_el): the mean of all ranks' reconstructions."""
    total = torch.zeros(call.dims["n_el"], dtype=torch.float64, device=call.device)
    for rank in range(call.world_size):
        total += _reconstructed(call.at_rank(rank))
    return (total / call.world_size,)


def _reconstructed(call: Call) -> Tensor:
    """One rank's gradient after the 8 bits. Quotients are float32, because their rounding decides the codes."""
    arguments = make_inputs(call)
    gradient, block = arguments["flat_grad"].float(), arguments["block_size"]
    blocks = pad(gradient, (0, -gradient.numel() % block)).view(-1, block)
    step = blocks.abs().amax(dim=1, keepdim=True).clamp(min=1e-8) / 127
    codes = (blocks / step).round().clamp(-127, 127)
    return (codes.double() * step.double()).flatten()[: gradient.numel()]
