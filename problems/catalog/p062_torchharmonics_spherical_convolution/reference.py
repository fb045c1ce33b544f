"""The baseline: transpose, contract entry by entry, all-reduce over latitudes, transpose back, mix channels."""

import torch
import torch.distributed as dist
from torch import Tensor

_ELEMENTS = 1 << 26
"""Shifted field elements held at a time: 256 MB."""


def solution(
    x: Tensor,
    psi: Tensor,
    weight: Tensor,
    groups: int,
    nlon_out: int,
    nlon_in: int,
    azimuth_group: "dist.ProcessGroup | None" = None,
    polar_group: "dist.ProcessGroup | None" = None,
    bias: "Tensor | None" = None,
) -> Tensor:
    """The rank's block (B, Cout, nlat_l, nlon_l) of the convolution of the field whose block is `x`."""
    if dist.get_world_size(azimuth_group) > 1:
        x = _transpose(x, split=1, join=3, group=azimuth_group)
    y = contract(x, psi, nlon_out, nlon_in // nlon_out)
    polar = dist.get_world_size(polar_group)
    if polar > 1:
        dist.all_reduce(y, group=polar_group)
        y = y.chunk(polar, dim=1)[dist.get_rank(polar_group)]
    if dist.get_world_size(azimuth_group) > 1:
        y = _transpose(y, split=4, join=3, group=azimuth_group)
    return mix(y, weight, groups, bias)


def _transpose(x: Tensor, *, split: int, join: int, group: "dist.ProcessGroup | None") -> Tensor:
    """Hand piece j of dimension `split` to rank j of the group, join what comes along `join`."""
    send = torch.stack(x.chunk(dist.get_world_size(group), dim=split))
    receive = torch.empty_like(send)
    dist.all_to_all_single(receive, send, group=group)
    return torch.cat(receive.unbind(), dim=join)


def contract(x: Tensor, psi: Tensor, nlon_out: int, step: int) -> Tensor:
    """`y` (Kk, nlat, B, C, nlon_out): the filter met with the complete circles of `x` (B, C, nlat_l, nlon).

    An entry at latitude h and longitude w adds its value times x[..., h, (w + q * step) mod nlon] for all q.
    """
    filters, latitudes, _ = psi.shape
    batch, channels, _, nlon = x.shape
    basis, out_latitude, column = psi.indices()
    wrapped = torch.cat([x, x], dim=3).permute(2, 0, 1, 3).contiguous()
    shifted = wrapped.unfold(3, (nlon_out - 1) * step + 1, 1)[..., ::step]
    y = x.new_zeros(filters * latitudes, batch, channels, nlon_out)
    entries = zip(
        *(
            part.split(max(1, _ELEMENTS // y[0].numel()))
            for part in (basis * latitudes + out_latitude, column // nlon, column % nlon, psi.values())
        ),
        strict=True,
    )
    for row, latitude, longitude, value in entries:
        y.index_add_(0, row, shifted[latitude, :, :, longitude] * value.view(-1, 1, 1, 1))
    return y.view(filters, latitudes, batch, channels, nlon_out)


def mix(y: Tensor, weight: Tensor, groups: int, bias: "Tensor | None") -> Tensor:
    """`out` (B, Cout, h, w): a weight (Cout, Cin / groups, Kk) mixes channels and filters of `y` (Kk, h, B, Cin, w)."""
    grouped = y.unflatten(3, (groups, -1))
    out = torch.einsum("khbgcw,gock->bgohw", grouped, weight.unflatten(0, (groups, -1))).flatten(1, 2)
    return out if bias is None else out + bias.view(-1, 1, 1)
