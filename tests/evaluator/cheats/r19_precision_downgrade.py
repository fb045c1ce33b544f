"""Row 19, precision downgrade: sends 8 bits in place of 16.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT
"""

import torch
import torch.distributed as dist


def solution(tensor):
    scale = tensor.abs().amax(1, keepdim=True).float().clamp(min=1e-30) / 448
    coded = (tensor.float() / scale).to(torch.float8_e4m3fn).float() * scale
    out = coded.clone()
    dist.all_reduce(out)
    return out.to(tensor.dtype)
