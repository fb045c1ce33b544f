"""Twin of row 34: reads its input twice in one call, and has used whatever the L2 cache kept before it returns.

Problem: allreduce
Mode: benchmark
Needs: GPUs
Accepted: PASSED
"""

import torch
import torch.distributed as dist


def solution(tensor):
    out = torch.empty_like(tensor)
    out.copy_(tensor)
    out.copy_(tensor)
    dist.all_reduce(out)
    return out
