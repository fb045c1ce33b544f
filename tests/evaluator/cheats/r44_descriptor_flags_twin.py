"""Twin of row 44: appends to and cuts files of its own.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import fcntl
import os

import torch.distributed as dist


def solution(tensor):
    own = os.memfd_create("notes")
    fcntl.fcntl(own, fcntl.F_SETFL, os.O_APPEND)
    os.write(own, b"called")
    os.ftruncate(own, 0)
    os.close(own)
    out = tensor.clone()
    dist.all_reduce(out)
    return out
