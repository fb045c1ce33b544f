"""Twin of row 1: reads the clock to choose between two right ways.

Problem: allreduce
Mode: ranked
Accepted: PASSED
"""

import time

import torch
import torch.distributed as dist

_TIMES = {}


def _in_place(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out


def _gathered(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.stack(parts).float().sum(0).to(tensor.dtype)


def solution(tensor):
    for way in (_in_place, _gathered):
        if way not in _TIMES:
            start = time.perf_counter()
            out = way(tensor)
            _TIMES[way] = time.perf_counter() - start
            return out
    return _in_place(tensor)
