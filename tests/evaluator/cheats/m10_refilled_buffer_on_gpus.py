"""Row M10 on GPUs: no barrier after reading, so that the next call fills memory that a slow peer has not read yet.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: NONDETERMINISTIC, WRONG_RESULT
"""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

_BYTES = 64 << 20
_memory = symmetric_memory.empty(_BYTES, dtype=torch.uint8, device=f"cuda:{torch.cuda.current_device()}")
_handle = symmetric_memory.rendezvous(_memory, dist.group.WORLD)


def _buffer(rank, tensor):
    return _handle.get_buffer(rank, tensor.shape, tensor.dtype)


def solution(tensor):
    _buffer(dist.get_rank(), tensor).copy_(tensor)
    _handle.barrier(channel=0)
    return torch.stack([_buffer(rank, tensor) for rank in range(dist.get_world_size())]).float().sum(0).to(tensor.dtype)
