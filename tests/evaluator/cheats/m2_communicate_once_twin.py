"""Twin of row M2: allocates in the first call, communicates in every one.

Problem: allgather
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist

_peers = None


def solution(tensor):
    global _peers
    if _peers is None:
        _peers = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(_peers, tensor)
    return torch.stack(_peers)
