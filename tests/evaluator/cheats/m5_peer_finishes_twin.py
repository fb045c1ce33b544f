"""Twin of row M5: rank 1 writes rank 0's output, and both wait until it is there.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import mmap
import os

import torch
import torch.distributed as dist

_BYTES = 1 << 20
_file = os.open("/dev/shm/shared_output_of_twin", os.O_RDWR | os.O_CREAT)
os.ftruncate(_file, _BYTES)
_memory = mmap.mmap(_file, _BYTES)


def solution(tensor):
    shared = torch.frombuffer(_memory, dtype=tensor.dtype, count=tensor.numel()).view(tensor.shape)
    out = tensor.clone()
    dist.all_reduce(out)
    if dist.get_rank() == 1:
        shared.copy_(out)
    dist.barrier()
    result = shared.clone()
    dist.barrier()
    return result
