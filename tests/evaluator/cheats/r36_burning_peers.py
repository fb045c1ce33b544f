"""Row 36, attack on the baseline: children burn the cores while the reference is timed.

Problem: allreduce
Mode: ranked
Needs: CPU ranks
Accepted: TIMING_INCONSISTENT
"""

import os
import time

import torch.distributed as dist

_CHILDREN = 5  # varied 4 to 8
_pause = f"/tmp/pause_{os.getpid()}"

for _ in range(_CHILDREN):
    if os.fork() == 0:
        while True:
            if os.path.exists(_pause):
                time.sleep(0.0005)


def solution(tensor):
    with open(_pause, "w"):
        pass
    out = tensor.clone()
    dist.all_reduce(out)
    if os.path.exists(_pause):
        os.unlink(_pause)
    return out
