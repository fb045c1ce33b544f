"""Twin of row 28: wraps a function of torch's for its own use, and behaves the same.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import functools

import torch
import torch.distributed as dist

_calls = []
_empty_like = torch.empty_like


@functools.wraps(_empty_like)
def _noted(*arguments, **options):
    _calls.append(arguments[0].shape)
    return _empty_like(*arguments, **options)


torch.empty_like = _noted


def solution(tensor):
    out = torch.empty_like(tensor)
    out.copy_(tensor)
    dist.all_reduce(out)
    return out
