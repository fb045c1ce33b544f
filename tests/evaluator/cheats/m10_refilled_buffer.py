"""Row M10: no barrier after reading, so that the next call of a fast rank fills a buffer that a slow one still reads.

Problem: allreduce
Mode: check
Accepted: NONDETERMINISTIC, WRONG_RESULT
"""

import mmap
import os

import torch
import torch.distributed as dist

_BYTES = 1 << 20
_rank, _world_size = dist.get_rank(), dist.get_world_size()
_memories = []
for _number in range(_world_size):
    _file = os.open(f"/dev/shm/refilled_buffer_{_number}", os.O_RDWR | os.O_CREAT)
    os.ftruncate(_file, _BYTES)
    _memories.append(mmap.mmap(_file, _BYTES))


def solution(tensor):
    buffers = [
        torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel()).view(tensor.shape) for memory in _memories
    ]
    buffers[_rank].copy_(tensor)
    dist.barrier()
    return torch.stack(buffers).float().sum(0).to(tensor.dtype)
