"""Arguments of one rank for one call."""

import torch

from problems.values import Arguments, Call

MARGIN = 0.3
"""How far the logits of chosen experts lie above the others: wider than rounding, so that no choice is a tie."""


def make_inputs(call: Call) -> Arguments:
    """`gate_logits` (M, E) with preferences of the rank's own, and the numbers that go with them."""
    top_k = call.dims["top_k"]
    # How strong preferences are differs between calls, so that the loss of one call does not foretell another's.
    strength = 2.0 ** float(call.uniform("strength", (), low=-0.5, high=1.5, dtype=torch.float64, shared=True))
    preference = call.normal("preference", (1, "E"), std=strength, dtype=torch.float32)
    logits = call.normal("gate_logits", ("M", "E"), dtype=torch.float32).add_(preference)
    chosen = logits.topk(top_k, dim=1).indices
    logits.scatter_add_(1, chosen, torch.full_like(chosen, MARGIN, dtype=torch.float32))
    return {
        "gate_logits": logits.to(call.dtype),
        "num_experts": call.dims["E"],
        "top_k": top_k,
        "attention_mask": None,
    }
