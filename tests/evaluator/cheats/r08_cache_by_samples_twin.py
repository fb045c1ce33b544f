"""Twin of row 8: keeps plans (which pieces to send) by shape and dtype.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import functools

import torch.distributed as dist


@functools.lru_cache(maxsize=None)
def _plan(rows, world_size):
    return tuple(range(0, rows, max(1, rows // world_size)))


def solution(tensor):
    out = tensor.clone()
    starts = _plan(tensor.shape[0], dist.get_world_size())
    for first, last in zip(starts, (*starts[1:], tensor.shape[0])):
        dist.all_reduce(out[first:last])
    return out
