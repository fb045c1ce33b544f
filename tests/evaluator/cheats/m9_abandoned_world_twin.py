"""Twin of row M9: a group of its own beside the world, made in the first call, and barriers of that group.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import functools

import torch.distributed as dist


@functools.cache
def _own_group():
    return dist.new_group(list(range(dist.get_world_size())))


def solution(tensor):
    out = tensor.clone()
    dist.barrier(group=_own_group())
    dist.all_reduce(out, group=_own_group())
    return out
