"""What each rank owes, in float64, from the whole field and all filters."""

import torch
from torch import Tensor

from problems.catalog.p062_torchharmonics_spherical_convolution.inputs import make_inputs
from problems.values import Call

_ENTRIES = 64
"""Filter entries taken at a time: at `large`, 64 * 192 * 720 numbers in float64 are 71 MB."""


def expected(call: Call) -> tuple[Tensor, ...]:
    """`out` (B, Cout, nlat_l, nlon_l): the rank's latitudes and longitudes, with the rank's own weight and bias."""
    dims, own = call.dims, make_inputs(call)
    azimuth = call.world_size // dims["P"]
    weight = own["weight"].double().split(dims["Cin"] // azimuth, dim=1)
    out = own["bias"].double().view(-1, 1, 1).repeat(dims["B"], 1, dims["nlat_l"], dims["nlon_l"])
    for chunk, mixing in enumerate(weight):
        y = _contracted(call, chunk, azimuth)
        out += torch.einsum("khbcw,ock->bohw", y, mixing)
    return (out,)


def _contracted(call: Call, chunk: int, azimuth: int) -> Tensor:
    """The channels of azimuth rank `chunk`, contracted with that column's filters: (Kk, nlat_l, B, C, nlon_l)."""
    dims = call.dims
    first, shift = call.rank // azimuth * dims["nlat_l"], call.rank % azimuth * dims["nlon_l"]
    channels = dims["Cin"] // azimuth
    rows = dims["Kk"] * dims["nlat_l"]
    y = torch.zeros(rows, dims["B"], channels, dims["nlon_l"], dtype=torch.float64, device=call.device)
    there = shift + torch.arange(dims["nlon_l"], device=call.device)
    for polar in range(dims["P"]):
        circle = [make_inputs(call.at_rank(polar * azimuth + place))["x"] for place in range(azimuth)]
        field = torch.cat([part[:, chunk * channels : (chunk + 1) * channels] for part in circle], dim=3)
        field = field.permute(2, 3, 0, 1).contiguous()
        psi = make_inputs(call.at_rank(polar * azimuth + chunk))["psi"]
        basis, latitude, column = psi.indices()
        mine = (latitude >= first) & (latitude < first + dims["nlat_l"])
        row = (basis * dims["nlat_l"] + latitude - first)[mine]
        entries = zip(
            row.split(_ENTRIES), column[mine].split(_ENTRIES), psi.values()[mine].split(_ENTRIES), strict=True
        )
        for target, place, value in entries:
            longitudes = (place[:, None] % dims["nlon"] + there) % dims["nlon"]
            met = field[(place // dims["nlon"])[:, None], longitudes].double()
            y.index_add_(0, target, met.permute(0, 2, 3, 1) * value.double().view(-1, 1, 1, 1))
    return y.view(dims["Kk"], dims["nlat_l"], dims["B"], channels, dims["nlon_l"])
