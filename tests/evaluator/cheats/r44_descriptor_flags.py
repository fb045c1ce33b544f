"""Row 44, descriptors that host and rank share: sets flags on all, resizes all that it may, and hangs to be asked.

Problem: allreduce
Mode: check
Accepted: TIMEOUT, DEADLOCK, EARLY_EXIT, CRASHED, TAMPERED
"""

import contextlib
import fcntl
import os
import time

import torch.distributed as dist

_SLEEP = 40


def _files():
    return [int(name) for name in os.listdir("/proc/self/fd")]


def solution(tensor):
    for descriptor in _files():
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("/memfd:"):
                fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
                os.ftruncate(descriptor, 0)
    time.sleep(_SLEEP)
    out = tensor.clone()
    dist.all_reduce(out)
    return out
