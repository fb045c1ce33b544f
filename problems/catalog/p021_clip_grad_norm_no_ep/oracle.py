"""The expected outputs, in float64."""

import torch
from torch import Tensor

from problems.catalog.p021_clip_grad_norm_no_ep.inputs import gradients, limit, norm_type
from problems.inputs.values import Call

_ELEMENTS = 1 << 22
"""Elements taken at a time: their float64 copy stays in a GPU's cache."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`total_norm` and the three clipped gradients (M, N)."""
    own, p = list(gradients(call)), norm_type(call)
    norms = [_norm(gradient, p) for gradient in own]
    for rank in range(call.world_size):
        if rank != call.rank:
            norms += [_norm(gradient, p) for gradient in gradients(call.at_rank(rank))]
    total = torch.stack(norms).norm(p)
    factor = torch.where(total > limit(call), limit(call) / total, 1.0).float()
    # In float32, rounded once to the run's dtype when compared: float64 would take four times the memory. A factor with
    # a dimension makes the product float32 in one pass.
    return total, *(tensor * factor[None] for tensor in own)


def _norm(gradient: Tensor, p: float) -> Tensor:
    parts = gradient.flatten().split(_ELEMENTS)
    return torch.stack([torch.linalg.vector_norm(part, p, dtype=torch.float64) for part in parts]).norm(p)
