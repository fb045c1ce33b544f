"""Twin of row M10 on GPUs: two buffers in turn. Whoever fills one again has met a barrier that all reached after reading.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: PASSED
"""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

_BYTES = 64 << 20
_memory = symmetric_memory.empty(2 * _BYTES, dtype=torch.uint8, device=f"cuda:{torch.cuda.current_device()}")
_handle = symmetric_memory.rendezvous(_memory, dist.group.WORLD)
_calls = 0


def _buffer(rank, tensor):
    start = _BYTES * (_calls % 2) // tensor.element_size()
    return _handle.get_buffer(rank, tensor.shape, tensor.dtype, start)


def solution(tensor):
    global _calls
    _calls += 1
    _buffer(dist.get_rank(), tensor).copy_(tensor)
    _handle.barrier(channel=0)
    return torch.stack([_buffer(rank, tensor) for rank in range(dist.get_world_size())]).float().sum(0).to(tensor.dtype)
