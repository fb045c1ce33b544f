"""Twin of row 46: a child of its own fails, and it goes on without it.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import os

import torch.distributed as dist

_CODE = 70


def solution(tensor):
    child = os.fork()
    if child == 0:
        os._exit(_CODE)
    os.waitpid(child, 0)
    out = tensor.clone()
    dist.all_reduce(out)
    return out
