"""Twin of row 36 on GPUs: each rank has a helper that busy-polls between calls, as those of communication libraries do.

Problem: allreduce
Mode: benchmark
Sizes: base
Needs: GPUs
Accepted: PASSED
"""

import mmap
import os

import torch.distributed as dist

_page = mmap.mmap(-1, mmap.PAGESIZE)
_asked, _answered = 0, 1
_call = 0

if os.fork() == 0:
    while True:
        _page[_answered] = _page[_asked]


def solution(tensor):
    global _call
    _call = (_call + 1) % 256
    _page[_asked] = _call
    out = tensor.clone()
    dist.all_reduce(out)
    while _page[_answered] != _call:
        pass
    return out
