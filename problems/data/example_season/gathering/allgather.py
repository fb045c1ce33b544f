"""Gathers into a list and stacks it: one more copy than needed."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor) -> Tensor:
    """The matrices of all ranks, in rank order."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return torch.stack(parts)
