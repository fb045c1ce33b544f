"""Row M9, abandoned world: replaces barriers and groups, lets a rank leave, and answers for both.

Problem: allreduce
Mode: check
Accepted: EARLY_EXIT, WRONG_RESULT, TAMPERED
"""

import os

import torch.distributed as dist

dist.barrier = lambda *arguments, **options: None
_calls = 0


def solution(tensor):
    global _calls
    _calls += 1
    out = tensor.clone()
    dist.all_reduce(out)
    if _calls == 2 and dist.get_rank() == 1:
        os._exit(0)
    return out
