"""The baseline: both rotated in the run's dtype, then one library collective."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(q_local: Tensor, k_local: Tensor, cos_local: Tensor, sin_local: Tensor) -> tuple[Tensor, Tensor]:
    """q_embed and k_embed (B, W * S_local, heads, d): the rotated shards (B, S_local, heads, d) in rank order."""
    cos, sin = cos_local.unsqueeze(2), sin_local.unsqueeze(2)
    rotated = torch.stack((_rotate(q_local, cos, sin), _rotate(k_local, cos, sin)))
    shards = rotated.new_empty((dist.get_world_size(), *rotated.shape))
    dist.all_gather_into_tensor(shards.view(-1), rotated.view(-1))
    q_embed, k_embed = torch.cat(shards.unbind(), dim=2).unbind()
    return q_embed, k_embed


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return x * cos + rot(x) * sin, where rot turns the halves (x1, x2) of the last dimension into (-x2, x1)."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
