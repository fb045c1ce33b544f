"""Programs that must pass and programs that must fail."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

from problems.catalog.p064_gnn_neighbor_sampling.reference import solution
from problems.families.rank_parts import all_gathered

Result = tuple[Tensor, Tensor, Tensor, Tensor]


def _graphs(pointers: Tensor, neighbours: Tensor) -> list[tuple[list[int], list[int]]]:
    """All ranks' lists, on every rank."""
    all_pointers = all_gathered(pointers)
    most = max(int(each[-1]) for each in all_pointers)
    all_neighbours = all_gathered(pad(neighbours, (0, most - len(neighbours))))
    return [(p.tolist(), n.tolist()) for p, n in zip(all_pointers, all_neighbours, strict=True)]


def _walk(
    seeds: Tensor, fanouts: list[int], graphs: Any, owners: list[int], *, last: bool = False, whole: int | None = None
) -> Result:
    nodes = seeds.tolist()
    place = dict(zip(nodes, range(len(nodes)), strict=True))
    edges: list[tuple[int, int, int]] = []
    start = 0
    for fanout in fanouts:
        frontier, start = nodes[start:], len(nodes)
        for node in frontier:
            pointers, neighbours = graphs[owners[node]]
            numbers = list(range(pointers[node], pointers[node + 1]))
            for number in numbers[-fanout:] if last else numbers[: fanout if fanout >= 0 else whole]:
                if neighbours[number] not in place:
                    place[neighbours[number]] = len(nodes)
                    nodes.append(neighbours[number])
                edges.append((place[neighbours[number]], place[node], number))
    row, col, edge = torch.tensor(edges, dtype=torch.int64).view(-1, 3).unbind(dim=1)
    return torch.tensor(nodes), row, col, edge


def gathered(seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any) -> Result:
    """Gathers the whole graph and walks node by node."""
    return _walk(seeds, fanouts, _graphs(ptr, col), owners.tolist())


def broadcast(seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any) -> Result:
    """Every rank in turn hands its lists to all."""
    graphs = []
    for rank in range(dist.get_world_size()):
        pointers = ptr.clone()
        dist.broadcast(pointers, rank)
        lists = col.clone() if rank == dist.get_rank() else col.new_empty(int(pointers[-1]))
        dist.broadcast(lists, rank)
        graphs.append((pointers.tolist(), lists.tolist()))
    return _walk(seeds, fanouts, graphs, owners.tolist())


def last_neighbours(seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any) -> Result:
    """The last of each list instead of the first."""
    return _walk(seeds, fanouts, _graphs(ptr, col), owners.tolist(), last=True)


def one_hop(seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any) -> Result:
    """Stops after the first hop."""
    return solution(seeds, fanouts[:1], ptr, col, owners)


def owners_by_remainder(
    seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any
) -> Result:
    """Asks the rank that the node's number modulo W names."""
    return solution(seeds, fanouts, ptr, col, torch.arange(len(owners)) % dist.get_world_size())


def destinations_swapped(
    seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any
) -> Result:
    """Neighbour and destination exchanged."""
    node, row, destination, edge = solution(seeds, fanouts, ptr, col, owners)
    return node, destination, row, edge


def fanout_as_a_slice(
    seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any
) -> Result:
    """Cuts a list as Python does, where a negative end leaves the last neighbour out."""
    return _walk(seeds, fanouts, _graphs(ptr, col), owners.tolist(), whole=-1)


def zero_takes_all(seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any) -> Result:
    """Takes whole lists where a fanout is not above zero."""
    return solution(seeds, [fanout or -1 for fanout in fanouts], ptr, col, owners)


def one_edge_at_least(
    seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any
) -> Result:
    """One edge of zeros where there is none."""
    node, *edges = solution(seeds, fanouts, ptr, col, owners)
    row, destination, edge = (part if len(part) else part.new_zeros(1) for part in edges)
    return node, row, destination, edge


def idle_owners_leave(
    seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any
) -> Result:
    """Returns the seeds alone on a rank that nobody asks for the neighbours of a seed."""
    asked = torch.bincount(owners[seeds], minlength=dist.get_world_size())
    dist.all_reduce(asked)
    node, row, destination, edge = solution(seeds, fanouts, ptr, col, owners)
    if asked[dist.get_rank()]:
        return node, row, destination, edge
    return seeds.clone(), row[:0], destination[:0], edge[:0]


def room_for_half_more(
    seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any
) -> Result:
    """Knows no neighbours of a rank's nodes beyond half more than the mean number of nodes."""
    own = (owners == dist.get_rank()).nonzero()[:, 0]
    room = 3 * len(owners) // (2 * dist.get_world_size())
    degrees = ptr.diff()
    degrees[own[room:]] = 0
    if not own[room:].numel():
        return solution(seeds, fanouts, ptr, col, owners)
    return solution(seeds, fanouts, torch.cat([ptr[:1], degrees.cumsum(0)]), col, owners)


def all_ranks_equally_long(
    seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any
) -> Result:
    """Takes no more neighbours of a rank than each has in all of its lists."""
    length = torch.tensor([len(col)])
    dist.all_reduce(length, op=dist.ReduceOp.MIN)
    return solution(seeds, fanouts, ptr.clamp(max=int(length)), col, owners)


def own_nodes_at_least(
    seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any
) -> Result:
    """Returns the seeds alone on a rank that owns no node."""
    node, row, destination, edge = solution(seeds, fanouts, ptr, col, owners)
    if (owners == dist.get_rank()).any():
        return node, row, destination, edge
    return seeds.clone(), row[:0], destination[:0], edge[:0]


def all_leave_with_the_first(
    seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any
) -> Result:
    """Stops on all ranks once one has no new node."""
    hops = 1
    while hops < len(fanouts):
        found = torch.tensor([len(solution(seeds, fanouts[:hops], ptr, col, owners)[0]) - len(seeds)])
        dist.all_reduce(found, op=dist.ReduceOp.MIN)
        if not found:
            break
        hops += 1
    return solution(seeds, fanouts[:hops], ptr, col, owners)


def neighbours_in_16_bits(
    seeds: Tensor, fanouts: list[int], ptr: Tensor, col: Tensor, owners: Tensor, *_rest: Any
) -> Result:
    """Sends the numbers of neighbours in 16 bits."""
    return gathered(seeds, fanouts, ptr, col & 0xFFFF, owners)


HONEST = {"gathered": gathered, "broadcast": broadcast}
MUTANTS = {
    "last_neighbours": last_neighbours,
    "one_hop": one_hop,
    "owners_by_remainder": owners_by_remainder,
    "destinations_swapped": destinations_swapped,
}
NARROW = {
    "many_nodes": neighbours_in_16_bits,
    "whole_lists": fanout_as_a_slice,
    "fanout_of_zero": zero_takes_all,
    "no_neighbours": one_edge_at_least,
    "one_rank_owns_most": room_for_half_more,
    "one_rank_owns_all": own_nodes_at_least,
    "uneven_lists": all_ranks_equally_long,
    "one_rank_finds_nothing": all_leave_with_the_first,
    "seeds_of_one_owner": idle_owners_leave,
}
