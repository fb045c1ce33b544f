"""Row M2, communicate once and reuse: gathers in the first call and keeps the peers' shares.

Problem: allgather
Mode: check
Accepted: STALE_OUTPUT, WRONG_RESULT
"""

import torch
import torch.distributed as dist

_peers = None


def solution(tensor):
    global _peers
    if _peers is None:
        _peers = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(_peers, tensor)
    _peers[dist.get_rank()] = tensor.clone()
    return torch.stack(_peers)
