"""The parts of all ranks, for variants that see everything: gathered on every rank, and added in another order."""

import torch
import torch.distributed as dist
from torch import Tensor


def all_gathered(tensor: Tensor, group: dist.ProcessGroup | None = None) -> list[Tensor]:
    """Every rank's `tensor`, in the order of `group` (None: the world); all have one shape and dtype."""
    own = tensor.contiguous()
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, own, group=group)
    return parts


def added_backwards(parts: list[Tensor]) -> Tensor:
    """The sum of `parts` in their own dtype, rounded at every step, last one first."""
    total = parts[-1]
    for part in parts[-2::-1]:
        total = total + part
    return total
