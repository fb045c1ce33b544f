"""Twin of row 24: counts its calls, prepares in the first one, and looks at its own frame.

Problem: allreduce
Mode: ranked
Accepted: PASSED
"""

import inspect

import torch
import torch.distributed as dist

_calls = 0
_buffer = None


def solution(tensor):
    global _calls, _buffer
    _calls += 1
    assert inspect.currentframe().f_code.co_name == "solution"
    if _buffer is None:
        _buffer = torch.empty_like(tensor)
    _buffer.copy_(tensor)
    dist.all_reduce(_buffer)
    return _buffer.clone()
