"""One library collective."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor, src: int = 0) -> Tensor:
    """The source's matrix on every rank."""
    out = tensor.clone() if dist.get_rank() == src else torch.empty_like(tensor)
    dist.broadcast(out, src)
    return out
