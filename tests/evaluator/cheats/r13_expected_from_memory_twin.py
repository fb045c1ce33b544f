"""Twin of row 13: collects its garbage, and counts what it holds.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import gc

import torch
import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    gc.collect()
    assert sum(type(item) is torch.Tensor for item in gc.get_objects()) > 0
    return out
