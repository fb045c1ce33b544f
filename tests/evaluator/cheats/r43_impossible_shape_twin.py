"""Twin of row 43: makes empty tensors of many dimensions on its way.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist


def solution(tensor):
    empty = torch.empty(2**20, 2**20, 0)
    out = tensor.clone()
    dist.all_reduce(out)
    return out[empty.shape[2] :]
