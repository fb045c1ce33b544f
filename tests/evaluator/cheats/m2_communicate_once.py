"""Row M2, communicate once and reuse: gathers in the first call and keeps the peers' shares, by shape.

Problem: allgather
Mode: check
Accepted: STALE_OUTPUT, WRONG_RESULT
"""

import torch
import torch.distributed as dist

_kept = {}


def solution(tensor):
    if tensor.shape not in _kept:
        _kept[tensor.shape] = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(_kept[tensor.shape], tensor)
    peers = _kept[tensor.shape]
    peers[dist.get_rank()] = tensor.clone()
    return torch.stack(peers)
