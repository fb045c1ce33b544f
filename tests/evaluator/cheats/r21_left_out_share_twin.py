"""Twin of row 21: sends rows in two collectives, all of them.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch.distributed as dist

_ROWS = 2  # varied 1 to 6


def solution(tensor):
    share = tensor.clone()
    dist.all_reduce(share[:-_ROWS])
    dist.all_reduce(share[-_ROWS:])
    return share
