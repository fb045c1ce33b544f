"""Twin of row 10: starts from memory that nobody wrote, and writes all of it.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: PASSED
"""

import torch
import torch.distributed as dist


def solution(tensor):
    out = torch.empty_like(tensor)
    out.copy_(tensor)
    dist.all_reduce(out)
    return out
