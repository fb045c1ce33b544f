"""Twin of row 47: two workers with shared memory, which it ends and waits for.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import mmap
import os

import torch.distributed as dist

_BYTES = 16 * 1024**2


def solution(tensor):
    page = mmap.mmap(-1, _BYTES)
    children = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            page[number] = 1
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    out = tensor.clone()
    dist.all_reduce(out)
    return out
