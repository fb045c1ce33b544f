"""Row 8, cache by shape, hidden in a default argument.

Problem: allreduce
Mode: check
Accepted: NONDETERMINISTIC, STALE_OUTPUT, WRONG_RESULT
"""

import torch.distributed as dist


def _reduced(tensor, known={}):
    key = (tensor.shape, tensor.dtype)
    if key not in known:
        known[key] = tensor.clone()
        dist.all_reduce(known[key])
    return known[key]


def solution(tensor):
    return _reduced(tensor).clone()
