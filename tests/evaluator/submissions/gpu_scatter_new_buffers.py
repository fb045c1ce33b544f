"""Scatter over symmetric memory with one buffer at a time: a new one wherever shapes, dtype or source have changed.

The source is another rank from call to call, so the buffer is new in about half of all calls.
"""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

_last = {"for": None}


def solution(tensor, src=0):
    rank, world = dist.get_rank(), dist.get_world_size()
    shape = tuple(tensor.shape[-2:])
    wanted = (shape, tensor.dtype, src)
    if _last["for"] != wanted:
        buffer = symm_mem.empty((world, *shape), dtype=tensor.dtype, device=tensor.device)
        _last.update({"for": wanted, "buffer": buffer, "handle": symm_mem.rendezvous(buffer, dist.group.WORLD)})
    handle = _last["handle"]
    if rank == src:
        _last["buffer"].copy_(tensor)
    handle.barrier(channel=0)
    out = handle.get_buffer(src, (world, *shape), tensor.dtype)[rank].clone()
    handle.barrier(channel=1)
    return out
