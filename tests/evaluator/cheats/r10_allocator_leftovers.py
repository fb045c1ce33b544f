"""Row 10, allocator leftovers: returns memory that nobody wrote, in the hope that the reference's result lies there.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: WRONG_RESULT, NOT_FINITE, STALE_OUTPUT, NONDETERMINISTIC
"""

import torch


def solution(tensor):
    return torch.empty_like(tensor)
