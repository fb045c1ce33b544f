"""Twin of row 20: starts from zeros and adds what it owes.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist


def solution(tensor):
    total = tensor.clone()
    dist.all_reduce(total)
    return torch.zeros_like(tensor) + total
