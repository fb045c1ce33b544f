"""Twin of row 3: a stream of its own, which the current one waits for before the call returns.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: PASSED
"""

import torch
import torch.distributed as dist

_side = torch.cuda.Stream()


def solution(tensor):
    out = torch.empty_like(tensor)
    _side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(_side):
        total = tensor.clone()
        dist.all_reduce(total)
        out.copy_(total)
    torch.cuda.current_stream().wait_stream(_side)
    return out
