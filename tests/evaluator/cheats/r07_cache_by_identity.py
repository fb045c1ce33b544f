"""Row 7, cache by identity: remembers the result by address, version counter and shape.

Problem: allreduce
Mode: check
Accepted: NONDETERMINISTIC, STALE_OUTPUT, WRONG_RESULT
"""

import torch.distributed as dist

_known = {}


def solution(tensor):
    key = (tensor.data_ptr(), tensor._version, tensor.shape)
    hit = [None] * dist.get_world_size()
    dist.all_gather_object(hit, key in _known)
    if not all(hit):
        out = tensor.clone()
        dist.all_reduce(out)
        _known[key] = out
    return _known[key].clone()
