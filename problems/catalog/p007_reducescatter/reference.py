"""The baseline: one library collective."""

import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor) -> Tensor:
    """The rank's row block (M, N) of the sum of all ranks' `tensor` (W*M, N)."""
    rows = tensor.shape[0] // dist.get_world_size()
    out = tensor.new_empty((rows, *tensor.shape[1:]))
    dist.reduce_scatter_tensor(out, tensor.contiguous())
    return out
