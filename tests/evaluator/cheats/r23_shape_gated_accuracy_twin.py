"""Twin of row 23: another algorithm for large matrices, as exact as the one for small ones.

Problem: allreduce
Mode: check
Sizes: tiny, base
Accepted: PASSED
"""

import torch.distributed as dist

_LARGE = 100_000  # varied 20000 to 500000


def solution(tensor):
    out = tensor.clone()
    for part in out.chunk(4) if tensor.numel() > _LARGE else (out,):
        dist.all_reduce(part)
    return out
