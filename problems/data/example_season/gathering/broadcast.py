"""Gathers every matrix and keeps the source's."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor, src: int = 0) -> Tensor:
    """The source's matrix on every rank."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return parts[src].clone()
