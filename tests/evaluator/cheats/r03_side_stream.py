"""Row 3, side-stream work: the work runs on a stream that nothing waits for.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: INCOMPLETE_OUTPUT, WRONG_RESULT, NOT_FINITE, STALE_OUTPUT
"""

import torch
import torch.distributed as dist

_CYCLES = 3_000_000
_side = torch.cuda.Stream()


def solution(tensor):
    out = torch.zeros_like(tensor)
    _side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(_side):
        total = tensor.clone()
        torch.cuda._sleep(_CYCLES)
        dist.all_reduce(total)
        out.copy_(total)
    return out
