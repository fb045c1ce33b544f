"""Row M4, rank asymmetry: only rank 0 has a result.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT
"""

import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    dist.reduce(out, dst=0)
    return out if dist.get_rank() == 0 else tensor.clone()
