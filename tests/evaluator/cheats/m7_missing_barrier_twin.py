"""Twin of row M7: the same buffers with a barrier before reading and one after.

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
    _file = os.open(f"/dev/shm/buffer_of_twin_{_number}", os.O_RDWR | os.O_CREAT)
    os.ftruncate(_file, _BYTES)
    _memories.append(mmap.mmap(_file, _BYTES))


def solution(tensor):
    buffers = [
        torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel()).view(tensor.shape) for memory in _memories
    ]
    buffers[_rank].copy_(tensor)
    dist.barrier()
    out = torch.stack(buffers).float().sum(0).to(tensor.dtype)
    dist.barrier()
    return out
