"""All-gather into a stack by the copy engines: every rank offers its shard in symmetric memory and copies the others'."""

import functools

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem


@functools.cache
def exchange(shape, dtype, device):
    """This rank's symmetric buffer, the handle to meet the others, and every rank's buffer as a tensor."""
    buffer = symm_mem.empty(shape, dtype=dtype, device=device)
    handle = symm_mem.rendezvous(buffer, dist.group.WORLD)
    return buffer, handle, [handle.get_buffer(peer, shape, dtype) for peer in range(handle.world_size)]


def solution(tensor):
    buffer, handle, shards = exchange(tuple(tensor.shape), tensor.dtype, tensor.device)
    handle.barrier(channel=0)  # the peers have read what the call before offered
    buffer.copy_(tensor)
    handle.barrier(channel=1)
    out = torch.empty((handle.world_size, *tensor.shape), dtype=tensor.dtype, device=tensor.device)
    for step in range(handle.world_size):
        peer = (handle.rank + step) % handle.world_size
        out[peer].copy_(shards[peer])
    return out
