"""Row 46, a failure of ours forged: ends with our shim's exit code while the next call is loaded.

Problem: allreduce
Mode: check
Accepted: CRASHED, RUNTIME_ERROR, EARLY_EXIT
"""

import os
import sys

import torch.distributed as dist

_CODE = 70  # varied 70 to 71


def solution(tensor):
    sys.modules["evaluator.arena.rank.shim"].Shim._load = lambda *_: os._exit(_CODE)
    out = tensor.clone()
    dist.all_reduce(out)
    return out
