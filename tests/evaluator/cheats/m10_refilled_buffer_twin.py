"""Twin of row M10: two buffers in turn. Whoever fills one again has met a barrier that all reached after reading it.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import mmap
import os

import torch
import torch.distributed as dist

_BYTES = 1 << 20
_rank, _world_size = dist.get_rank(), dist.get_world_size()
_memories = []
for _number in range(_world_size):
    _file = os.open(f"/dev/shm/buffers_in_turn_{_number}", os.O_RDWR | os.O_CREAT)
    os.ftruncate(_file, 2 * _BYTES)
    _memories.append(mmap.mmap(_file, 2 * _BYTES))
_calls = 0


def solution(tensor):
    global _calls
    _calls += 1
    start = _BYTES * (_calls % 2)
    buffers = [
        torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=start).view(tensor.shape)
        for memory in _memories
    ]
    buffers[_rank].copy_(tensor)
    dist.barrier()
    return torch.stack(buffers).float().sum(0).to(tensor.dtype)
