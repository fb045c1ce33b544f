"""The baseline: gather everybody's edge rows, extend the strip, call the library's convolution."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional


def solution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int = 1,
    padding: int = 1,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """The rank's strip (B, C, hl, wd) of the convolution of the whole image.

    `x` (B, C, hl, wd) is the rank's strip, `weight` (C, C, 3, 3) and `bias` (C,) the layer.
    """
    if padding == 0 or dist.get_world_size(group) == 1:
        return functional.conv2d(x, weight, bias, stride=stride, padding=padding)
    return functional.conv2d(with_halo(x, padding, group), weight, bias, stride=stride, padding=(0, padding))


def with_halo(x: Tensor, padding: int, group: dist.ProcessGroup | None) -> Tensor:
    """`x` with the neighbours' `padding` nearest rows above and below, zeros beyond the image."""
    world_size, rank = dist.get_world_size(group), dist.get_rank(group)
    own = torch.stack([x[:, :, :padding], x[:, :, -padding:]])
    gathered = own.new_empty(world_size, *own.shape)
    dist.all_gather_into_tensor(gathered.view(-1), own.view(-1), group=group)
    outside = torch.zeros_like(own[0])
    above = gathered[rank - 1, 1] if rank > 0 else outside
    below = gathered[rank + 1, 0] if rank < world_size - 1 else outside
    return torch.cat([above, x, below], dim=2)
