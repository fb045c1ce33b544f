"""The expected outputs: integers, from the lists of all ranks and a table of all nodes."""

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from problems.catalog.p064_gnn_neighbor_sampling.inputs import (
    by_popularity,
    fanouts,
    neighbours,
    owners,
    pointers,
    seeds,
)
from problems.inputs.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`node`, `row`, `col`, `edge`: the sampled neighbourhood of the rank's seeds."""
    owner_of, popular = owners(call), by_popularity(call)
    ranks = [call.at_rank(rank) for rank in range(call.world_size)]
    first = torch.stack([pointers(rank, owner_of) for rank in ranks])
    lists = pad_sequence([neighbours(rank, popular) for rank in ranks], batch_first=True)
    nodes, start = seeds(call), 0
    # Where a node stands in `nodes`, -1 where it has not been met.
    place = torch.full_like(owner_of, -1)
    place[nodes] = _count(nodes)
    row, col, edge = [], [], []
    for fanout in fanouts(call):
        frontier = nodes[start:]
        owner = owner_of[frontier]
        begin, end = first[owner, frontier], first[owner, frontier + 1]
        most = fanout if fanout >= 0 else max((end - begin).tolist(), default=0)
        numbers = begin[:, None] + torch.arange(most, device=call.device)
        asking, taken = (numbers < end[:, None]).nonzero(as_tuple=True)
        number = numbers[asking, taken]
        found = lists[owner[asking], number]
        new = _once(found[place[found] < 0], nodes=len(place))
        place[new] = len(nodes) + _count(new)
        row.append(place[found])
        col.append(start + asking)
        edge.append(number)
        start, nodes = len(nodes), torch.cat((nodes, new))
    return nodes, torch.cat(row), torch.cat(col), torch.cat(edge)


def _once(found: Tensor, *, nodes: int) -> Tensor:
    """`found`, numbers below `nodes`, without those that came earlier in it."""
    order = _count(found)
    earliest = order.new_full((nodes,), len(found)).scatter_reduce_(0, found, order, "amin")
    return found[earliest[found] == order]


def _count(tensor: Tensor) -> Tensor:
    """0, 1, ... for every element of `tensor`."""
    return torch.arange(len(tensor), device=tensor.device)
