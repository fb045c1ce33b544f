"""Row M5, peer finishes my output: rank 0 returns memory into which rank 1 goes on writing.

Problem: allreduce
Mode: check
Accepted: INCOMPLETE_OUTPUT, WRONG_RESULT, STALE_OUTPUT, NOT_FINITE, NONDETERMINISTIC
"""

import mmap
import os
import threading
import time

import torch
import torch.distributed as dist

_LATER_S = 0.01  # varied 0.005 to 0.02
_BYTES = 1 << 20
_file = os.open("/dev/shm/shared_output", os.O_RDWR | os.O_CREAT)
os.ftruncate(_file, _BYTES)
_memory = mmap.mmap(_file, _BYTES)


def solution(tensor):
    shared = torch.frombuffer(_memory, dtype=tensor.dtype, count=tensor.numel()).view(tensor.shape)
    out = tensor.clone()
    dist.all_reduce(out)
    if dist.get_rank() == 0:
        return shared

    def work():
        time.sleep(_LATER_S)
        shared.copy_(out)

    threading.Thread(target=work).start()
    return out
