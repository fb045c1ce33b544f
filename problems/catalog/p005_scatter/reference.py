"""The baseline: one library collective."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor, src: int = 0) -> Tensor:
    """Matrix r (M, N) of the stack `tensor` (W, M, N) that rank `src` holds, as a new tensor on rank r."""
    if dist.get_rank() == src:
        out = torch.empty_like(tensor[0])
        dist.scatter(out, list(tensor.contiguous().unbind()), src)
    else:
        out = torch.empty_like(tensor)
        dist.scatter(out, None, src)
    return out
