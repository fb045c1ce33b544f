"""The baseline: one library collective into the result."""

import torch.distributed as dist
from torch import Tensor


def solution(x: Tensor, group: "dist.ProcessGroup | None" = None) -> Tensor:
    """All ranks' `x` below each other in the order of `group`: dimension 0 grows by the size of the group."""
    out = x.new_empty((dist.get_world_size(group) * x.shape[0], *x.shape[1:]))
    dist.all_gather_into_tensor(out, x.contiguous(), group=group)
    return out
