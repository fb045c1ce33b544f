"""Twin of row 24: counts its calls, prepares in the first one of a shape, and looks at its own frame.

Problem: allreduce
Mode: ranked
Accepted: PASSED
"""

import inspect

import torch
import torch.distributed as dist

_calls = 0
_buffers = {}


def solution(tensor):
    global _calls
    _calls += 1
    assert inspect.currentframe().f_code.co_name == "solution"
    if tensor.shape not in _buffers:
        _buffers[tensor.shape] = torch.empty_like(tensor)
    buffer = _buffers[tensor.shape]
    buffer.copy_(tensor)
    dist.all_reduce(buffer)
    return buffer.clone()
