"""Arguments of one rank for one call."""

import torch
from torch import Tensor

from problems.inputs.regime_values import owner
from problems.inputs.values import Arguments, Call

FANOUTS = (10, 5)
HUB_SHARE = 0.75
"""The part of a rank's neighbours that one node has in a regime."""


def make_inputs(call: Call) -> Arguments:
    """The rank's seeds, the fanouts, the neighbour lists of its own nodes, the owners of all nodes, and the rest.

    Nodes of other ranks have empty lists here. Some own nodes have no neighbours, a few have very many, and
    neighbours are drawn with preference for popular nodes, so that frontiers overlap.
    """
    owner_of = owners(call)
    return {
        "seed_nodes": seeds(call),
        "fanouts": list(fanouts(call)),
        "local_adj_row_ptr": pointers(call, owner_of),
        "local_adj_col": neighbours(call, by_popularity(call)),
        "node_to_rank": owner_of,
        "group": None,
        "replace": False,
    }


def fanouts(call: Call) -> tuple[int, ...]:
    """How many neighbours each hop takes of a node; a negative number stands for all."""
    usual = {"first": FANOUTS[0], "second": FANOUTS[1], "third": FANOUTS[1]}
    numbers = [int(call.setting(name, number)) for name, number in usual.items()]
    numbers = numbers[: call.setting("hops", len(FANOUTS))]
    return (*numbers[:-1], int(call.setting("last", numbers[-1])))


def seeds(call: Call) -> Tensor:
    """The rank's seeds (S,), all different."""
    drawn = call.permutation("seeds", call.dims["Nn"])
    if call.setting("seeds", None) == "one_owner":
        drawn = drawn[(owners(call)[drawn] != owner(call)).int().argsort(stable=True)]
    if call.setting("seeds", None) == "one_is_lonely" and call.rank == owner(call):
        drawn = drawn[_degrees(call)[drawn].argsort(stable=True)]
    elif call.setting("hub", usual=False) and (owners(call) == owner(call)).any():
        hub = _hub(owners(call), owner(call))
        drawn = torch.cat((hub, drawn[drawn != hub]))
    return drawn[: call.dims["S"]].clone()


def _hub(owner_of: Tensor, rank: int) -> Tensor:
    """The node (1,) of a rank that owns some, which in a regime has most of the neighbours in the rank's lists."""
    return (owner_of == rank).int().argmax().view(1)


def owners(call: Call) -> Tensor:
    """The owner of every node (Nn,), the same on all ranks: each has as many; in some regimes one has most or all."""
    place = call.permutation("owners", call.dims["Nn"], shared=True)
    owner_of = place % call.world_size
    if call.setting("owners", None) == "one_has_most":
        owner_of = owner_of.masked_fill(4 * place < 3 * call.dims["Nn"], owner(call))
    if call.setting("owners", None) == "one_has_all":
        owner_of = owner_of.fill_(owner(call))
    return owner_of


def _edges(call: Call) -> int:
    """How many neighbours the rank has in its lists: E; in regimes unequally many, or none where it owns no node."""
    edges = call.dims["E"]
    if call.regime is not None and not (owners(call) == call.rank).any():
        return 0
    if call.setting("lists", None) == "uneven":
        # The rank after the one that may own all has none.
        place = (call.rank - owner(call) - 1) % call.world_size
        return edges * (place % 4) // 3
    return edges


def _degrees(call: Call) -> Tensor:
    """How many neighbours each node has (Nn,), whoever owns it."""
    owner_of = owners(call)
    return torch.stack([pointers(call.at_rank(rank), owner_of).diff() for rank in range(call.world_size)]).sum(dim=0)


def by_popularity(call: Call) -> Tensor:
    """All nodes (Nn,), the most popular first, the same on all ranks."""
    return call.permutation("popular", call.dims["Nn"], shared=True)


def pointers(call: Call, owner_of: Tensor) -> Tensor:
    """Where the rank's list of every node begins, and the end of all (Nn + 1,)."""
    nodes, edges = call.dims["Nn"], _edges(call)
    share = call.scales("share", (nodes,)).masked_fill_(owner_of != call.rank, 0)
    is_lonely = call.uniform("lonely", (nodes,), dtype=torch.float32) < 1 / 8
    share = torch.where(is_lonely & (share * ~is_lonely).any(), 0, share)  # never all nodes of a rank with few
    # Whole numbers: GPUs add floating ones in an order that may change from one time to the next.
    ends = (share.double() * 2**20).long().cumsum(0).double()
    places = call.uniform("places", (edges,), dtype=torch.float32).double() * ends[-1]
    of_hub = int(HUB_SHARE * edges) if call.setting("hub", usual=False) else 0
    degrees = torch.bincount(torch.searchsorted(ends, places[of_hub:], right=True, out_int32=True), minlength=nodes)
    if of_hub:
        degrees[_hub(owner_of, call.rank)] += of_hub
    return torch.cat((degrees.new_zeros(1), degrees.cumsum(0)))


def neighbours(call: Call, popular: Tensor) -> Tensor:
    """The rank's lists, one after the other; `popular` are all nodes by popularity."""
    nodes = call.dims["Nn"]
    rank = call.uniform("neighbours", (_edges(call),), dtype=torch.float32).square_().mul_(nodes).long()
    return popular[rank.clamp_(max=nodes - 1)]
