"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.values import Arguments, Call

MARGIN = 0.3
"""How far the logits of chosen experts lie above the others: wider than rounding, so that no choice is a tie."""


def make_inputs(call: Call) -> Arguments:
    """`gate_logits` (M, E) with preferences of the rank's own, and the numbers that go with them."""
    logits, _ = routed(call)
    return {
        "gate_logits": logits,
        "num_experts": call.dims["E"],
        "top_k": call.dims["top_k"],
        "attention_mask": None,
    }


def routed(call: Call) -> tuple[Tensor, Tensor]:
    """The rank's logits (M, E) and the experts raised above the others (M, top_k), in no order."""
    # How strong preferences are differs between calls, so that the loss of one call does not foretell another's.
    strength = 2.0 ** float(call.uniform("strength", (), low=-0.5, high=1.5, dtype=torch.float64, shared=True))
    preference = call.normal("preference", (1, "E"), std=strength, dtype=torch.float32)
    logits = call.normal("gate_logits", ("M", "E"), dtype=torch.float32).add_(preference)
    chosen = logits.topk(call.dims["top_k"], dim=1, sorted=False).indices
    logits.scatter_add_(1, chosen, torch.full_like(chosen, MARGIN, dtype=torch.float32))
    return logits.to(call.dtype), chosen
