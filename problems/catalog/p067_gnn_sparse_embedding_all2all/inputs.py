"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.families.largest_values import with_largest
from problems.inputs.copied_values import copied
from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call

MOST_BITS = 40
"""Of the number of nodes for each rank in a regime; where there are fewer bits, of that of all nodes."""
LEAST = 64
"""How many nodes of an owner a rank names that knows only the least."""


def make_inputs(call: Call) -> Arguments:
    """`idx` (nnz,), `value` (nnz, h), `num_nodes` and no group."""
    return {
        "idx": _ids(call),
        "value": with_largest(call, "value", copied(call, "value", call.normal("value", ("nnz", "h")))),
        "num_nodes": _nodes_per_rank(call) * call.world_size,
        "group": None,
    }


def _nodes_per_rank(call: Call) -> int:
    """How many nodes each rank owns."""
    if (bits := call.setting("bits", None)) is None:
        return call.dims["Nn"] // call.world_size
    if int(bits) == MOST_BITS:
        return 1 << MOST_BITS
    return -(-int(call.setting("share", 1.0) * (1 << int(bits))) // call.world_size)


def _ids(call: Call) -> Tensor:
    """Node ids that come in unequal shares from the owners, with popular nodes asked for often.

    Random cuts give every owner a share, another one for each rank; one owner in a secret place relative to the
    rank gets nothing. Within an owner the density falls with the power -2/3 of the distance from a popular node.
    """
    per_owner = _nodes_per_rank(call)
    cuts = call.uniform("cuts", (max(call.world_size - 2, 0),), dtype=torch.float32).sort().values
    place = torch.searchsorted(cuts, call.uniform("owners", ("nnz",), dtype=torch.float32))
    if call.world_size > 2:
        place = call.permutation("order", call.world_size)[place]
    else:
        place = call.integers("owners of two", ("nnz",), low=0, high=3).clamp_(max=1)
    if (kind := call.setting("ids", None)) is not None:
        place = _owners_in_regime(call, kind, place)
    popular = call.integers("popular", (call.world_size,), low=0, high=per_owner, shared=True)
    distance = call.uniform("distances", ("nnz",), dtype=torch.float32).pow_(3).mul_(per_owner).long()
    local = (popular[place] + distance) % per_owner
    if call.setting("least_on", None) == "one_rank" and call.rank == owner(call):
        local %= LEAST
    return place + call.world_size * local


def _owners_in_regime(call: Call, kind: str, place: Tensor) -> Tensor:
    """The owners `place` (nnz,), the same one for all pairs, or in turn; on all ranks or on one alone."""
    if kind == "one_owner":
        return torch.full_like(place, owner(call))
    if kind != "own" and call.rank != owner(call):
        return place
    if kind == "even_on_one":
        return torch.arange(len(place), device=place.device) % call.world_size
    return torch.full_like(place, call.rank)
