"""Scatter over symmetric memory: the source offers its stack in a buffer, from which every rank copies its matrix.

The buffer is made in the first call at a size and kept. Only the source fills it, so ranks reach the first barrier at
different times.
"""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

_kept = {}


def solution(tensor, src=0):
    rank, world = dist.get_rank(), dist.get_world_size()
    shape = tuple(tensor.shape[-2:])
    if shape not in _kept:
        buffer = symm_mem.empty((world, *shape), dtype=tensor.dtype, device=tensor.device)
        _kept[shape] = buffer, symm_mem.rendezvous(buffer, dist.group.WORLD)
    buffer, handle = _kept[shape]
    if rank == src:
        buffer.copy_(tensor)
    handle.barrier(channel=0)
    out = handle.get_buffer(src, (world, *shape), tensor.dtype)[rank].clone()
    handle.barrier(channel=1)
    return out
