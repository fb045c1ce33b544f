"""Twin of row 7: keeps a buffer, not a result, by address and shape.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist

_buffers = {}


def solution(tensor):
    buffer = _buffers.setdefault((tensor.data_ptr(), tensor.shape), torch.empty_like(tensor))
    buffer.copy_(tensor)
    dist.all_reduce(buffer)
    return buffer
