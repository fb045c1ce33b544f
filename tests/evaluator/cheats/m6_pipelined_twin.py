"""Twin of row M6: overlaps two halves inside one call.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    works = [dist.all_reduce(half, async_op=True) for half in out.chunk(2)]
    for work in works:
        work.wait()
    return out
