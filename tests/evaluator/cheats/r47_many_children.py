"""Row 47, a slot that does not come clean in time: many children with large shared mappings, and a hang.

Problem: allreduce
Mode: check
Accepted: TIMEOUT, LIMIT_EXCEEDED, OUT_OF_MEMORY, RUNTIME_ERROR, DEADLOCK
"""

import mmap
import os
import time

_BYTES = 128 * 1024**2
_CHILDREN = 40  # varied 30 to 60


def solution(tensor):
    shared = os.memfd_create("shared")
    os.ftruncate(shared, _BYTES)
    page = mmap.mmap(shared, _BYTES)
    page[:] = bytes(_BYTES)
    for _ in range(_CHILDREN):
        if os.fork() == 0:
            os.setsid()
            sum(page[::4096])
            time.sleep(600)
    time.sleep(600)
    return tensor
