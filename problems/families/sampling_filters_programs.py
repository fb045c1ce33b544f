"""Wrong ways to filter logits that are split over the vocabulary, right in calls like the timed ones."""

import torch
import torch.distributed as dist
from torch import Tensor

from problems.families.rank_parts import all_gathered

Filtered = tuple[Tensor, int | None, float]
"""The rank's logits (B, S, Vl), and the filters that are still to be applied to them."""


def nucleus_of_fifty(logits: Tensor, top_k: int | None, top_p: float) -> Filtered:
    """Looks for what top-p leaves among the fifty largest logits of a token where there is no top-k."""
    if top_k is not None or top_p >= 1:
        return logits, top_k, top_p
    rows = _rows(logits)
    return _own(rows.masked_fill(rows < rows.topk(50).values[..., -1:], -torch.inf)), top_k, top_p


def best_of_a_shard(logits: Tensor, top_k: int | None, top_p: float) -> Filtered:
    """Looks for what top-p leaves among the 128 largest logits of every rank where there is no top-k."""
    if top_k is not None or top_p >= 1 or logits.shape[-1] <= 128:
        return logits, top_k, top_p
    return logits.masked_fill(logits < logits.topk(128).values[..., -1:], -torch.inf), top_k, top_p


def bisected(logits: Tensor, top_k: int | None, top_p: float) -> Filtered:
    """Halves the way between the least and the largest logit of a token forty times to find what top-p leaves."""
    if top_p >= 1:
        return logits, top_k, top_p
    rows = _rows(logits).float()
    least = rows.topk(top_k or rows.shape[-1]).values[..., -1:]
    mass = rows.masked_fill(rows < least, -torch.inf).softmax(dim=-1)
    low = rows.masked_fill(rows.isinf(), torch.inf).amin(dim=-1, keepdim=True) - 1
    high = rows.amax(dim=-1, keepdim=True)
    for _ in range(40):
        middle = (low + high) / 2
        is_below = mass.where(rows > middle, 0.0).sum(dim=-1, keepdim=True) >= top_p
        low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
    return _own(rows.masked_fill(rows <= low, -torch.inf)).to(logits.dtype), top_k, 1.0


def _rows(logits: Tensor) -> Tensor:
    """All ranks' columns of all tokens."""
    return torch.cat(all_gathered(logits), dim=-1)


def _own(rows: Tensor) -> Tensor:
    """This rank's columns of them."""
    return rows.chunk(dist.get_world_size(), dim=-1)[dist.get_rank()].contiguous()
