"""Row 20, constant output: as large as the right one, and always the same.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT
"""

import torch


def solution(tensor):
    return torch.zeros_like(tensor)
