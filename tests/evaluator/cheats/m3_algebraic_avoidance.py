"""Row M3, algebraic avoidance: sums one factor before the product, as if the other were the same everywhere.

Problem: gemm_allreduce
Mode: check
Accepted: WRONG_RESULT
"""

import torch.distributed as dist


def solution(A_local, B_local):
    A = A_local.clone()
    dist.all_reduce(A)
    return A @ B_local
