"""The baseline: scaling into float32, then one collective."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(local_y: Tensor, local_s: Tensor, block_size: int = 128) -> Tensor:
    """Values times the scale of their block, chunk r of every rank on rank r: (W, M, N) in float32."""
    scaled = local_y.float().view(-1, block_size) * local_s.float().view(-1, 1)
    out = torch.empty(local_y.shape, dtype=torch.float32, device=local_y.device)
    dist.all_to_all_single(out, scaled.view(local_y.shape))
    return out
