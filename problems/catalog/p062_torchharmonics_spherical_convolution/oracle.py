"""The expected outputs, in float64, from the whole field and all filters."""

import torch
from torch import Tensor

from problems.catalog.p062_torchharmonics_spherical_convolution.inputs import entries, field, make_inputs
from problems.inputs.values import Call

_MET = 1 << 22
"""Numbers of the field that filter entries meet at a time: 32 MiB in float64."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, Cout, nlat_l, nlon_l): the rank's latitudes and longitudes, with the rank's own weight and bias."""
    dims, own = call.dims, make_inputs(call)
    azimuth = call.world_size // dims["P"]
    mixing = _of_all_channels(own["weight"], own["groups"]).permute(2, 1, 0).contiguous().double().chunk(azimuth, dim=1)
    out = own["bias"].double().repeat(dims["nlat_l"], dims["nlon_l"] * dims["B"], 1)
    for polar in range(dims["P"]):
        ranks = [call.at_rank(polar * azimuth + place) for place in range(azimuth)]
        # A filter is for the channels of its azimuth rank, on all longitudes of the polar rank.
        channels = torch.cat([field(rank) for rank in ranks], dim=3).permute(2, 3, 0, 1).chunk(azimuth, dim=3)
        for rank, part, of_part in zip(ranks, channels, mixing, strict=True):
            _add_filtered(out, call, part.double(), entries(rank), of_part)
    return (out.view(*call.shape(("nlat_l", "nlon_l", "B", "Cout"))).permute(2, 3, 0, 1).contiguous(),)


def _of_all_channels(weight: Tensor, groups: int) -> Tensor:
    """`weight` (Cout, Cin / groups, Kk) as (Cout, Cin, Kk), zero where a channel is in another group."""
    blocks = [torch.block_diag(*taps.chunk(groups)) for taps in weight.unbind(dim=2)]
    return torch.stack(blocks, dim=2)


def _add_filtered(out: Tensor, call: Call, part: Tensor, filtering: tuple[Tensor, Tensor], mixing: Tensor) -> None:
    """Add to `out` (nlat_l, nlon_l * B, Cout) what a filter and `mixing` (Kk, C, Cout) make of channels.

    `part` (latitudes, nlon, B, C) holds the channels, to which the filter's columns refer. At the rank's j-th longitude
    an entry meets the longitude that is j further around the circle: of two rounds, a contiguous piece.
    """
    dims = call.dims
    azimuth = call.world_size // dims["P"]
    first, shift = call.rank // azimuth * dims["nlat_l"], call.rank % azimuth * dims["nlon_l"]
    latitudes = slice(first, first + dims["nlat_l"])
    columns, values = (tensor[:, latitudes] for tensor in filtering)
    point = part[0, 0].numel()
    pieces = torch.cat([part, part], dim=1).flatten().unfold(0, dims["nlon_l"] * point, point)
    starts = columns // dims["nlon"] * 2 * dims["nlon"] + (columns % dims["nlon"] + shift) % dims["nlon"]
    step = max(1, _MET // (columns.shape[2] * pieces.shape[1]))
    for basis, of_basis in enumerate(mixing):
        rows = zip(starts[basis].split(step), values[basis].double().split(step), out.split(step), strict=True)
        for start, value, target in rows:
            met = pieces[start].mul_(value.unsqueeze(2)).sum(dim=1)
            target.flatten(0, 1).addmm_(met.view(-1, part.shape[3]), of_basis)
