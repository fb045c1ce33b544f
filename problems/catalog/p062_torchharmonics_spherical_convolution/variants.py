"""Programs that must pass and programs that must fail."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from problems.catalog.p062_torchharmonics_spherical_convolution.reference import contract, mix, solution
from problems.families.rank_parts import all_gathered

Group = dist.ProcessGroup | None


def _with(psi: Tensor, *, values: Tensor, indices: Tensor | None = None) -> Tensor:
    """`psi` with other values and, where given, other indices."""
    places = psi.indices() if indices is None else indices
    return torch.sparse_coo_tensor(places, values, psi.shape, is_coalesced=True, check_invariants=False)


def step_by_step(
    x: Tensor,
    psi: Tensor,
    weight: Tensor,
    groups: int,
    nlon_out: int,
    nlon_in: int,
    azimuth_group: Group = None,
    polar_group: Group = None,
    bias: Tensor | None = None,
    *,
    payload: Callable[[Tensor], Tensor] = torch.clone,
    contracted: Callable[[Tensor, Tensor, int, int], Tensor] = contract,
    adds: Callable[[list[Tensor]], Tensor] = sum,  # type: ignore[assignment]
) -> Tensor:
    """Gathers in place of transposing and reducing, and adds in rank order; other parts can be put in."""
    azimuth, here = dist.get_world_size(azimuth_group), dist.get_rank(azimuth_group)
    circles = torch.cat(all_gathered(payload(x), azimuth_group), dim=3)
    y = contracted(circles.chunk(azimuth, dim=1)[here].contiguous(), psi, nlon_out, nlon_in // nlon_out)
    total = adds(all_gathered(payload(y), polar_group))
    block = total.chunk(dist.get_world_size(polar_group), dim=1)[dist.get_rank(polar_group)]
    joined = torch.cat(all_gathered(payload(block), azimuth_group), dim=3)
    return mix(joined.chunk(azimuth, dim=4)[here], weight, groups, bias)


def by_rolling(x: Tensor, psi: Tensor, nlon_out: int, step: int) -> Tensor:
    """One sparse product per output longitude, the field rolled in between."""
    filters, latitudes, columns = psi.shape
    rows = torch.sparse_coo_tensor(
        torch.stack([psi.indices()[0] * latitudes + psi.indices()[1], psi.indices()[2]]),
        psi.values(),
        (filters * latitudes, columns),
        check_invariants=False,
    )
    circles = x.permute(2, 3, 0, 1)
    shifts = [
        torch.sparse.mm(rows, circles.roll(-place * step, dims=1).reshape(columns, -1)) for place in range(nlon_out)
    ]
    return torch.stack(shifts, dim=-1).view(filters, latitudes, *x.shape[:2], nlon_out)


def in_double(x: Tensor, psi: Tensor, weight: Tensor, *rest: Any) -> Tensor:
    """The reference in float64."""
    *numbers, bias = rest
    wide = _with(psi, values=psi.values().double())
    wide_rest = (*numbers, bias.double())
    return solution(x.double(), wide, weight.double(), *wide_rest).float()


def shifted_back(x: Tensor, psi: Tensor, nlon_out: int, step: int) -> Tensor:
    """Turns the filter the other way round the globe."""
    return contract(x.flip(3), psi, nlon_out, step).flip(4)


def one_longitude_off(x: Tensor, psi: Tensor, nlon_out: int, step: int) -> Tensor:
    """Every entry one longitude east of where it is."""
    return contract(x.roll(-1, dims=3), psi, nlon_out, step)


def not_wrapped(x: Tensor, psi: Tensor, nlon_out: int, step: int) -> Tensor:
    """Zeros beyond the last longitude in place of the first ones."""
    nlon = x.shape[3]
    padded = torch.cat([x, torch.zeros_like(x)], dim=3)
    basis, latitude, column = psi.indices()
    wider = torch.stack([basis, latitude, column // nlon * 2 * nlon + column % nlon])
    shape = (*psi.shape[:2], 2 * psi.shape[2])
    wide = torch.sparse_coo_tensor(wider, psi.values(), shape, is_coalesced=True, check_invariants=False)
    return contract(padded, wide, nlon_out, step)


def of_first_rank(x: Tensor, psi: Tensor, *rest: Any) -> Tensor:
    """Takes the filter of rank 0 for everybody's."""
    indices, values = psi.indices().clone(), psi.values().clone()
    dist.broadcast(indices, 0)
    dist.broadcast(values, 0)
    return solution(x, _with(psi, indices=indices, values=values), *rest)


def replicated_layer(x: Tensor, psi: Tensor, weight: Tensor, *rest: Any) -> Tensor:
    """Takes weight and bias of rank 0 for everybody's."""
    weight, bias = weight.clone(), rest[-1].clone()
    dist.broadcast(weight, 0)
    dist.broadcast(bias, 0)
    of_first = (*rest[:-1], bias)
    return solution(x, psi, weight, *of_first)


def without_bias(*arguments: Any) -> Tensor:
    """Leaves the bias out."""
    return solution(*arguments[:-1])


def channels_of_the_first_group(x: Tensor, psi: Tensor, weight: Tensor, groups: int, *rest: Any) -> Tensor:
    """Mixes all outputs from the channels of the first group."""
    first = torch.zeros(len(weight), groups * weight.shape[1], weight.shape[2])
    first[:, : weight.shape[1]] = weight
    return solution(x, psi, first, 1, *rest)


def equal_rows(x: Tensor, psi: Tensor, *rest: Any) -> Tensor:
    """Takes it that all rows of the filter have as many entries."""
    filters, latitudes, _ = psi.shape
    row = torch.arange(len(psi.values()), device=psi.device) * filters * latitudes // len(psi.values())
    indices = torch.stack([row // latitudes, row % latitudes, psi.indices()[2]])
    return solution(x, _with(psi, values=psi.values(), indices=indices), *rest)


def as_many_entries_as_any(x: Tensor, psi: Tensor, *rest: Any) -> Tensor:
    """Takes as many entries of every filter as the smallest one has."""
    least = min(map(int, all_gathered(torch.tensor([len(psi.values())], device=x.device))))
    return solution(x, _with(psi, values=psi.values()[:least], indices=psi.indices()[:, :least]), *rest)


def sixteen_entries_a_row(x: Tensor, psi: Tensor, *rest: Any) -> Tensor:
    """Knows the first sixteen entries of a row."""
    row = psi.indices()[0] * psi.shape[1] + psi.indices()[1]
    is_known = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row) < 16
    return solution(x, _with(psi, values=psi.values()[is_known], indices=psi.indices()[:, is_known]), *rest)


HONEST = {
    "gathered": step_by_step,
    "by_rolling": partial(step_by_step, contracted=by_rolling),
    "in_double": in_double,
}
MUTANTS = {
    "shifted_back": partial(step_by_step, contracted=shifted_back),
    "one_longitude_off": partial(step_by_step, contracted=one_longitude_off),
    "not_wrapped": partial(step_by_step, contracted=not_wrapped),
    "filter_of_first_rank": of_first_rank,
    "replicated_layer": replicated_layer,
    "without_bias": without_bias,
    "bfloat16_payload": partial(step_by_step, payload=lambda tensor: tensor.bfloat16().float()),
}
NARROW = {
    "two_channel_groups": channels_of_the_first_group,
    "four_channel_groups": channels_of_the_first_group,
    "uneven_rows": equal_rows,
    "long_rows": sixteen_entries_a_row,
    "empty_filter": as_many_entries_as_any,
}
