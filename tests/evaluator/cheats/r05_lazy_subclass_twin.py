"""Twin of row 5: computes through a subclass of its own, and returns a plain tensor.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist


class _Tagged(torch.Tensor):
    pass


def solution(tensor):
    out = (tensor.as_subclass(_Tagged) * 1).as_subclass(torch.Tensor)
    dist.all_reduce(out)
    return out
