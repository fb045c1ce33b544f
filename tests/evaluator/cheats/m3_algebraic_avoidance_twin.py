"""Twin of row M3: cuts the product into column blocks, and sums each.

Problem: gemm_allreduce
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist

_BLOCKS = 4  # varied 2 to 8


def solution(A_local, B_local):
    parts = [(A_local @ block.contiguous()).contiguous() for block in B_local.chunk(_BLOCKS, dim=1)]
    for part in parts:
        dist.all_reduce(part)
    return torch.cat(parts, dim=1)
