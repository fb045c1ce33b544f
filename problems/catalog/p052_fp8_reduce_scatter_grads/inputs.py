"""Arguments of one rank for one call."""

import torch

from problems.delayed_scaling import histories
from problems.values import Arguments, Call


def make_inputs(call: Call) -> Arguments:
    """`flat_grads` (W*P) with moderate tails and a scale of the rank's own near 1, and an `amax_history` to match."""
    scale = call.uniform("scale", (1,), low=-0.5, high=0.5, dtype=torch.float32).exp2_()
    values = call.normal("flat_grads", ("WP",), dtype=torch.float32).mul_(call.scales("tails", ("WP",), spread=0.6))
    gradients = values.mul_(scale).to(call.dtype)
    return {"flat_grads": gradients, "amax_history": histories(call, gradients)}
