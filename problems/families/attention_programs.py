"""Pieces of attention for variants that must fail."""

from torch import Tensor


def softmax_from_zero(scores: Tensor) -> Tensor:
    """The softmax of `scores` by key, with a maximum that starts at zero: no numbers where all are far below it."""
    weights = (scores - scores.amax(dim=-1, keepdim=True).clamp(min=0.0)).exp()
    return weights / weights.sum(dim=-1, keepdim=True)
