"""Row 12, input mutation: zeroes the input, so that a late reference would agree.

Problem: allreduce
Mode: check
Accepted: INPUT_MUTATED, WRONG_RESULT
"""

import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    tensor.zero_()
    return out
