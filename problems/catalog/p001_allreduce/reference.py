"""The baseline: one library collective."""

import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor) -> Tensor:
    """Sum of every rank's `tensor` (M, N), on every rank; the argument stays as it was."""
    out = tensor.clone()
    dist.all_reduce(out)
    return out
