"""Twin of row M4: rank 0 does the sum, and everybody gets it.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    dist.reduce(out, dst=0)
    dist.broadcast(out, src=0)
    return out
