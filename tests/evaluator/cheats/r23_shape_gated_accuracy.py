"""Row 23, shape-gated accuracy: exact where it is small, 8 bits where it is large.

Problem: allreduce
Mode: check
Sizes: tiny, base
Accepted: WRONG_RESULT
"""

import torch
import torch.distributed as dist

_LARGE = 100_000  # varied 20000 to 500000


def solution(tensor):
    out = tensor.float()
    if tensor.numel() > _LARGE:
        scale = out.abs().amax(1, keepdim=True).clamp(min=1e-30) / 448
        out = (out / scale).to(torch.float8_e4m3fn).float() * scale
    dist.all_reduce(out)
    return out.to(tensor.dtype)
