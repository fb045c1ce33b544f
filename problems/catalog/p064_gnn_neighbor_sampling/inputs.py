"""Arguments of one rank for one call."""

import torch

from problems.values import Arguments, Call

FANOUTS = (10, 5)


def make_inputs(call: Call) -> Arguments:
    """The rank's seeds, the fanouts, the neighbour lists of its own nodes, the owners of all nodes, and the rest.

    Nodes of other ranks have empty lists here. Some own nodes have no neighbours, a few have very many, and
    neighbours are drawn with preference for popular nodes, so that frontiers overlap.
    """
    nodes, edges = call.dims["Nn"], call.dims["E"]
    owners = call.permutation("owners", nodes, shared=True) % call.world_size
    share = call.scales("share", (nodes,)).masked_fill_(owners != call.rank, 0)
    share[call.uniform("lonely", (nodes,), dtype=torch.float32) < 1 / 8] = 0
    # Whole numbers: GPUs add floating ones in an order that may change from one time to the next.
    ends = (share.double() * 2**20).long().cumsum(0).double()
    places = call.uniform("places", (edges,), dtype=torch.float32).double() * ends[-1]
    degrees = torch.bincount(torch.searchsorted(ends, places, right=True), minlength=nodes)
    pointers = torch.cat((degrees.new_zeros(1), degrees.cumsum(0)))
    popularity = call.uniform("neighbours", (edges,), dtype=torch.float32).square_().mul_(nodes).long()
    return {
        "seed_nodes": call.permutation("seeds", nodes)[: call.dims["S"]].clone(),
        "fanouts": list(FANOUTS),
        "local_adj_row_ptr": pointers,
        "local_adj_col": call.permutation("popular", nodes, shared=True)[popularity.clamp_(max=nodes - 1)],
        "node_to_rank": owners,
        "group": None,
        "replace": False,
    }
