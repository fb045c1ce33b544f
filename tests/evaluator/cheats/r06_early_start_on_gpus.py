"""Row 6, work outside the clock on GPUs: computes while the shim reads the call, where inputs are still sealed.

Problem: allreduce
Mode: benchmark
Sizes: base
Needs: GPUs
Accepted: NOT_FINITE, WRONG_RESULT
"""

import sys

import torch
import torch.distributed as dist

_CYCLES = 36_000_000  # varied 30000000 to 50000000
_slots = sys.modules["evaluator.arena.call_slot"]
_read_call = _slots.read_call
_ready = []


def _work(tensor):
    out = tensor.clone()
    torch.cuda._sleep(_CYCLES)
    dist.all_reduce(out)
    return out


def _early(*arguments, **places):
    slot = _read_call(*arguments, **places)
    _ready.append(_work(*slot.arguments))
    return slot


_slots.read_call = _early


def solution(tensor):
    return _ready.pop(0)
