"""Twin of row 18: the same division of work where it is allowed, a kernel of its own before a library collective.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: PASSED
"""

import torch
import torch.distributed as dist
import triton
import triton.language as tl


@triton.jit
def _copy(source, target, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + places, tl.load(source + places, mask=places < count), mask=places < count)


def solution(tensor):
    out = torch.empty_like(tensor)
    _copy[(triton.cdiv(tensor.numel(), 1024),)](tensor, out, tensor.numel(), BLOCK=1024)
    dist.all_reduce(out)
    return out
