"""Row 28, harness code mutation: replaces the shim's own functions, so that the work is done while outputs are stored.

Problem: allreduce
Mode: check
Accepted: INCOMPLETE_OUTPUT
"""

import sys

import torch
import torch.distributed as dist

_slot = sys.modules["evaluator.arena.loaded_call"]
_copy_into = _slot.copy_into
_waiting = []


def _late(area, start, tensor):
    if _waiting:
        tensor = _waiting.pop()
        dist.all_reduce(tensor)
    _copy_into(area, start, tensor)


_slot.copy_into = _late


def solution(tensor):
    _waiting.append(tensor.clone())
    return torch.empty_like(tensor)
