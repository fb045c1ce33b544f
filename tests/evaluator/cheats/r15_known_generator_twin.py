"""Twin of row 15: seeds the global generator for a permutation of its own, and undoes it.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist

_SEED = 7  # varied 1 to 1000


def solution(tensor):
    torch.manual_seed(_SEED)
    order = torch.randperm(tensor.shape[0])
    out = tensor[order].contiguous()
    dist.all_reduce(out)
    return out[order.argsort()]
