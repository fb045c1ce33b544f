"""Twin of row 45: names itself in its author's language, and waits for the child that it starts.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import ctypes
import os

import torch.distributed as dist

_libc = ctypes.CDLL(None)


def solution(tensor):
    _libc.prctl(15, "größe".encode(), 0, 0, 0)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    out = tensor.clone()
    dist.all_reduce(out)
    return out
