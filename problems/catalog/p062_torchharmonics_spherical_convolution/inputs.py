"""Arguments of one rank for one call."""

from math import gcd

import torch
from torch import Tensor

from problems.catalog.p062_torchharmonics_spherical_convolution.spec import ENTRIES
from problems.inputs.groups import contiguous, strided
from problems.inputs.regime_values import LARGEST, in_regime, owner
from problems.inputs.values import Arguments, Call

LONG = 64
"""Entries of a long row, which one regime has."""


def make_inputs(call: Call) -> Arguments:
    """The rank's block of the field, its filter, weight and bias, and the groups of the process grid."""
    world_size, polar = call.world_size, call.dims["P"]
    groups = gcd(int(call.setting("groups", 1)), call.dims["Cout"])
    return {
        "x": field(call),
        "psi": _filter(call),
        "weight": _unless_kept(
            call, "weight", call.normal("weight", ("Cout", call.dims["C1"] // groups, "Kk"), dtype=torch.float32)
        )
        / _filter_size(call),
        "groups": groups,
        "nlon_out": call.dims["nlon"],
        "nlon_in": call.dims["nlon"],
        "azimuth_group": contiguous(call.rank, world_size=world_size, group_size=world_size // polar),
        "polar_group": strided(call.rank, world_size=world_size, group_size=polar),
        "bias": _unless_kept(call, "bias", call.normal("bias", ("Cout",), dtype=torch.float32)),
    }


def field(call: Call) -> Tensor:
    """The rank's block `x` (B, Cin, nlat_l, nlon_l) of the field."""
    drawn = call.normal("x", ("B", "Cin", "nlat_l", "nlon_l"), dtype=torch.float32)
    if call.setting("first_latitude", None) == "zero":
        drawn[:, :, 0] = 0
    return _unless_kept(call, "x", drawn)


def _unless_kept(call: Call, name: str, tensor: Tensor) -> Tensor:
    """`tensor` as the call's regime has its values: those of x and bias, or zeros where it names others."""
    changed = call.setting("zeros", "x and bias").split(" and ")
    return in_regime(call, name, tensor) if name in changed else tensor


def _filter_size(call: Call) -> float:
    """By what a regime multiplies the filter, and divides the weight."""
    return {"huge": LARGEST, "tiny": 1 / LARGEST}.get(call.setting("filter", ""), 1.0)


def entries(call: Call) -> tuple[Tensor, Tensor]:
    """Columns, ascending in a row, and values of the rank's filter, both (Kk, nlat, ENTRIES).

    A row has one entry in each quarter of the longitudes, latitudes at random. In one regime it has up to twice as
    many, in another one far more, and those that it does not have are zero here.
    """
    if call.setting("rows", "even") == "uneven":
        return _uneven_entries(call)
    if call.setting("rows", "even").startswith("long"):
        return _long_entries(call)
    shape = ("Kk", "nlat", ENTRIES)
    quarter = call.dims["nlon"] // ENTRIES
    longitudes = call.integers("longitudes", shape, low=0, high=quarter)
    longitudes += quarter * torch.arange(ENTRIES, device=call.device)
    latitudes = call.integers("latitudes", shape, low=0, high=call.dims["nlat_l"])
    # In ascending order, as a coalesced tensor has its entries.
    columns = (latitudes * call.dims["nlon"] + longitudes).sort(dim=2).values
    values = call.normal("psi", ("nnz",), std=0.5, dtype=torch.float32).view(columns.shape) * _filter_size(call)
    is_empty = call.setting("rows", "even") == "none_on_one_rank" and call.rank == owner(call)
    return columns, torch.zeros_like(values) if is_empty else values


def _uneven_entries(call: Call) -> tuple[Tensor, Tensor]:
    """As `entries`, for rows with up to 2 * ENTRIES entries, each in an eighth of the longitudes; as many in all."""
    shape, most = call.shape(("Kk", "nlat", 2 * ENTRIES)), 2 * ENTRIES
    pairs = shape[0] * shape[1] // 2
    first = call.integers("regime's entries", (pairs, 1), low=0, high=most + 1)
    counts = torch.full((shape[0] * shape[1],), ENTRIES, device=call.device)
    counts[: 2 * pairs] = torch.cat([first, most - first], dim=1).flatten()
    order = call.uniform("regime's order", shape, dtype=torch.float32).argsort(dim=2).argsort(dim=2)
    is_there = order < counts.view(*shape[:2], 1)
    eighth = call.dims["nlon"] // most
    longitudes = call.integers("regime's longitudes", shape, low=0, high=eighth)
    longitudes += eighth * torch.arange(most, device=call.device)
    latitudes = call.integers("regime's latitudes", shape, low=0, high=call.dims["nlat_l"])
    columns, places = (latitudes * call.dims["nlon"] + longitudes).sort(dim=2)
    values = torch.zeros(shape, device=call.device)
    values[is_there.gather(2, places)] = call.normal("psi", ("nnz",), std=0.5, dtype=torch.float32)
    return columns, values


def _long_entries(call: Call) -> tuple[Tensor, Tensor]:
    """As `entries`, for few rows with up to LONG entries at any places, and none in others.

    In all there are about as many, or three times as many.
    """
    rows, places = call.dims["Kk"] * call.dims["nlat"], call.dims["columns"]
    length = min(LONG, places)
    columns = torch.arange(length, device=call.device).repeat(rows, 1)
    values = torch.zeros(columns.shape, device=call.device)
    wanted = call.dims["nnz"] * (3 if call.setting("rows", "even") == "long_and_many" else 1)
    chosen = call.permutation("regime's rows", rows)[: -(-wanted // length)]
    draws = call.uniform("regime's places", (len(chosen), places), dtype=torch.float32)
    columns[chosen] = draws.argsort(dim=1)[:, :length].sort(dim=1).values
    values[chosen] = call.normal("regime's psi", (len(chosen), length), std=0.5, dtype=torch.float32)
    shape = (*call.shape(("Kk", "nlat")), length)
    return columns.view(shape), values.view(shape) * _filter_size(call)


def _filter(call: Call) -> Tensor:
    """`psi` (Kk, nlat, nlat_l * nlon), sparse."""
    columns, values = entries(call)
    grid = torch.meshgrid(*(torch.arange(size, device=call.device) for size in columns.shape), indexing="ij")
    indices = torch.stack([grid[0].flatten(), grid[1].flatten(), columns.flatten()])
    values = values.flatten()
    if call.regime is not None:
        indices, values = indices[:, values != 0], values[values != 0]
    whole = call.shape(("Kk", "nlat", "columns"))
    return torch.sparse_coo_tensor(indices, values, whole, is_coalesced=True, check_invariants=False)
