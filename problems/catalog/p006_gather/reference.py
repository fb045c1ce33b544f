"""The baseline: one library collective into the places of one buffer."""

import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor, dst: int = 0) -> Tensor:
    """On rank `dst` the stack (W, M, N) of all matrices in rank order; elsewhere the argument (M, N) itself."""
    if dist.get_rank() != dst:
        dist.gather(tensor.contiguous(), None, dst)
        return tensor
    out = tensor.new_empty((dist.get_world_size(), *tensor.shape))
    dist.gather(tensor.contiguous(), list(out.unbind()), dst)
    return out
