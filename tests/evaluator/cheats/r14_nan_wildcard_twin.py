"""Twin of row 14: NaN marks what is not yet there, and none is left.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist


def solution(tensor):
    out = torch.full_like(tensor, float("nan"))
    total = tensor.clone()
    dist.all_reduce(total)
    return torch.where(out.isnan(), total, out)
