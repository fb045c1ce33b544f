"""Row 14, NaN wildcard: NaN, which compares neither as larger nor as smaller than a tolerance.

Problem: allreduce
Mode: check
Accepted: NOT_FINITE
"""

import torch


def solution(tensor):
    return torch.full_like(tensor, float("nan"))
