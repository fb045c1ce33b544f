"""Gathers every matrix and adds them up in float32."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor) -> Tensor:
    """Sum over all ranks, rounded once."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return torch.stack(parts).sum(dim=0, dtype=torch.float32).to(tensor.dtype)
