"""Twin of row 19: sends the bits of the dtype that the problem has, and adds in float32.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist


def solution(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.stack(parts).float().sum(0).to(tensor.dtype)
