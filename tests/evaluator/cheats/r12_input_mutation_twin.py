"""Twin of row 12: overwrites a copy again and again.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch.distributed as dist


def solution(tensor):
    scratch = tensor.clone()
    scratch.zero_()
    scratch.add_(tensor)
    dist.all_reduce(scratch)
    return scratch
