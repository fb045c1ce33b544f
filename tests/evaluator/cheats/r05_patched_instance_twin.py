"""Twin of row 5: hangs notes of its own on the tensor that it returns.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    out.note = {"made by": "solution"}
    return out
