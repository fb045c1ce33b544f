"""Row 36, attack on the baseline on GPUs: children leave the processors of their rank and burn all that they can get.

Problem: allreduce
Mode: benchmark
Sizes: base
Needs: GPUs
Accepted: TIMING_INCONSISTENT
"""

import os

import torch.distributed as dist

_own = os.sched_getaffinity(0)


def _burn(processor):
    if os.fork() == 0:
        try:
            os.sched_setaffinity(0, {processor})
        except OSError:
            os._exit(0)
        while True:
            pass


for _processor in sorted(set(range(os.cpu_count())) - _own or _own):
    _burn(_processor)


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out
