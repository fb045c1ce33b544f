"""The baseline: inverse FFT along the half axis, all-to-all transposition, inverse FFT along the other."""

import torch
import torch.distributed as dist
from torch import Tensor


def solution(
    x: Tensor,
    s: "tuple[int, ...] | None",
    dim: "tuple[int, ...]",
    norm: str = "ortho",
    group: "dist.ProcessGroup | None" = None,
) -> Tensor:
    """The rank's columns (..., H, L/W) of the real fields whose half spectrum's rows (..., H/W, L//2 + 1) it holds."""
    sharded, halved = dim
    world_size = dist.get_world_size(group)
    rows, columns = s or (x.shape[sharded] * world_size, 2 * (x.shape[halved] - 1))
    # The mirrored half need not be fetched from other ranks. Added to its mirror image each column gives twice its
    # real part in the end, and only the real part is asked for: the inner columns count double.
    spectrum = x * 2
    spectrum.select(halved, 0).mul_(0.5)
    if columns % 2 == 0:
        spectrum.select(halved, x.shape[halved] - 1).mul_(0.5)
    part = torch.fft.ifft(spectrum, n=columns, dim=halved, norm=norm)
    whole = _transpose(part, sharded, halved, group)
    return torch.fft.ifft(whole, n=rows, dim=sharded, norm=norm).real.contiguous()


def _transpose(part: Tensor, sharded: int, halved: int, group: "dist.ProcessGroup | None") -> Tensor:
    """Split `halved` over the ranks and join `sharded`, in rank order."""
    # Complex numbers travel as pairs of floats, which every process group can carry.
    send = torch.view_as_real(torch.stack(part.chunk(dist.get_world_size(group), dim=halved)))
    receive = torch.empty_like(send)
    dist.all_to_all_single(receive, send.contiguous(), group=group)
    return torch.cat(list(torch.view_as_complex(receive)), dim=sharded)
