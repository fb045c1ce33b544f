"""Reduces four blocks of rows, one after the other."""

import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor) -> Tensor:
    """Sum over all ranks."""
    total = tensor.clone()
    for block in total.chunk(4):
        dist.all_reduce(block)
    return total
