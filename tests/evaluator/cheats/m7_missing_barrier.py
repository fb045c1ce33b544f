"""Row M7, missing barrier that luck hides: a peer's buffer is read after a pause that suffices when ranks start together.

Problem: allreduce
Mode: check
Accepted: NONDETERMINISTIC, WRONG_RESULT, STALE_OUTPUT, NOT_FINITE, INCOMPLETE_OUTPUT
"""

import mmap
import os
import time

import torch
import torch.distributed as dist

_LUCK_S = 0.008  # varied 0.006 to 0.01
_BYTES = 1 << 20
_rank, _world_size = dist.get_rank(), dist.get_world_size()
_memories = []
for _number in range(_world_size):
    _file = os.open(f"/dev/shm/buffer_{_number}", os.O_RDWR | os.O_CREAT)
    os.ftruncate(_file, _BYTES)
    _memories.append(mmap.mmap(_file, _BYTES))


def solution(tensor):
    buffers = [
        torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel()).view(tensor.shape) for memory in _memories
    ]
    buffers[_rank].copy_(tensor)
    time.sleep(_LUCK_S)
    return torch.stack(buffers).float().sum(0).to(tensor.dtype)
