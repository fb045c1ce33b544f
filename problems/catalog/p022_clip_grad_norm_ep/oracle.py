"""The expected outputs, in float64."""

from collections.abc import Iterable

import torch
from torch import Tensor

from problems.catalog.p022_clip_grad_norm_ep.inputs import gradients, limit, norm_type
from problems.inputs.values import Call

_ELEMENTS = 1 << 22
"""Elements taken at a time: their float64 copy stays in a GPU's cache."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`total_norm`, then the ordinary and the expert gradient (M, N), both clipped."""
    # What a rank's two gradients are divided by before anything else.
    divisors = torch.tensor([1, call.dims["ep_size"]], dtype=torch.float64, device=call.device)
    own, p = list(gradients(call)), norm_type(call)
    norms = [_norms(own, p)]
    norms += [_norms(gradients(call.at_rank(rank)), p) for rank in range(call.world_size) if rank != call.rank]
    total = (torch.stack(norms) / divisors).norm(p)
    factors = (torch.where(total > limit(call), limit(call) / total, 1.0) / divisors).float()
    # In float32, rounded once to the run's dtype when compared: float64 would take four times the memory. A factor with
    # a dimension makes the product float32 in one pass.
    return total, *(tensor * factor for tensor, factor in zip(own, factors.split(1), strict=True))


def _norms(gradients: Iterable[Tensor], p: float) -> Tensor:
    return torch.stack([_norm(gradient, p) for gradient in gradients])


def _norm(gradient: Tensor, p: float) -> Tensor:
    parts = gradient.flatten().split(_ELEMENTS)
    return torch.stack([torch.linalg.vector_norm(part, p, dtype=torch.float64) for part in parts]).norm(p)
