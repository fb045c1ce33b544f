"""The baseline: one library collective."""

import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor, dst: int = 0) -> Tensor:
    """On rank `dst` the sum of every rank's `tensor` (M, N); the argument stays as it was on all ranks."""
    out = tensor.clone()
    dist.reduce(out, dst)
    return out
