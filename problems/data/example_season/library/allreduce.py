"""One library collective on a copy: what the reference does."""

import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor) -> Tensor:
    """Sum over all ranks."""
    total = tensor.clone()
    dist.all_reduce(total)
    return total
