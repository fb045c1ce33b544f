"""Twin of row M2: allocates in the first call of a shape, communicates in every one.

Problem: allgather
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist

_kept = {}


def solution(tensor):
    if tensor.shape not in _kept:
        _kept[tensor.shape] = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(_kept[tensor.shape], tensor)
    return torch.stack(_kept[tensor.shape])
