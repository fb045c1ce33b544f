"""The baseline: one library collective, then the norm in float32."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(rs_input_1d: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """The rank's rows (rows, hidden) of the mean over ranks of rs_input_1d (W * rows * hidden,), normalised."""
    world_size = dist.get_world_size()
    chunk = rs_input_1d.new_empty(rs_input_1d.numel() // world_size)
    dist.reduce_scatter_tensor(chunk, rs_input_1d)
    mean = chunk.div_(world_size).view(-1, gamma.numel()).float()
    scale = torch.rsqrt(mean.square().mean(dim=-1, keepdim=True) + eps)
    return (mean * scale * gamma.float()).to(rs_input_1d.dtype)
