"""One library collective into the stack itself."""

import torch.distributed as dist
from torch import Tensor


def solution(tensor: Tensor) -> Tensor:
    """The matrices of all ranks, in rank order."""
    stack = tensor.new_empty((dist.get_world_size(), *tensor.shape))
    dist.all_gather_into_tensor(stack.view(-1), tensor.contiguous().view(-1))
    return stack
