"""Row 21, loose tolerance: leaves out the last rank's share of some rows.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT
"""

import torch.distributed as dist

_ROWS = 2  # varied 1 to 6


def solution(tensor):
    share = tensor.clone()
    if dist.get_rank() == dist.get_world_size() - 1:
        share[-_ROWS:] = 0
    dist.all_reduce(share)
    return share
