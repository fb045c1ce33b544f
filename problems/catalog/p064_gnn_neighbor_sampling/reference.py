"""The baseline: per hop, library collectives for counts, ids and replies, and a sort to number new nodes."""

import torch
import torch.distributed as dist
from torch import Tensor

Sampled = tuple[Tensor, Tensor, Tensor]


def solution(
    seed_nodes: Tensor,
    fanouts: list[int],
    local_adj_row_ptr: Tensor,
    local_adj_col: Tensor,
    node_to_rank: Tensor,
    group: "dist.ProcessGroup | None" = None,
    replace: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sampled nodes (seeds first), and of every edge the places of neighbour and destination, and its number.

    A rank whose frontier has run empty goes on answering the others.
    """
    del replace
    nodes, start = seed_nodes.clone(), 0
    rows, cols, edges = [], [], []
    for fanout in fanouts:
        frontier = nodes[start:]
        found, number, counts = _sample(
            frontier, fanout, local_adj_row_ptr, local_adj_col, node_to_rank[frontier], group
        )
        places = torch.arange(start, len(nodes), device=nodes.device)
        start = len(nodes)
        nodes, row = _append(nodes, found)
        rows.append(row)
        cols.append(places.repeat_interleave(counts))
        edges.append(number)
    return nodes, torch.cat(rows), torch.cat(cols), torch.cat(edges)


def _sample(
    frontier: Tensor,
    fanout: int,
    pointers: Tensor,
    neighbours: Tensor,
    owner: Tensor,
    group: "dist.ProcessGroup | None",
) -> Sampled:
    """Neighbours and edge numbers in the order of the frontier, and how many each of its nodes has."""
    order = owner.argsort(stable=True)
    send = torch.bincount(owner, minlength=dist.get_world_size(group))
    receive = torch.empty_like(send)
    dist.all_to_all_single(receive, send, group=group)
    asked, answered = torch.stack((send, receive)).tolist()
    wanted = frontier.new_empty(sum(answered))
    dist.all_to_all_single(wanted, frontier[order], answered, asked, group=group)
    first = pointers[wanted]
    degrees = pointers[wanted + 1] - first
    degrees = degrees if fanout < 0 else degrees.clamp(max=fanout)
    numbers = _ranges(first, degrees)
    counts = torch.empty_like(frontier)
    dist.all_to_all_single(counts, degrees, asked, answered, group=group)
    incoming = [int(part.sum()) for part in counts.split(asked)]
    outgoing = [int(part.sum()) for part in degrees.split(answered)]
    found, number = (frontier.new_empty(sum(incoming)) for _ in range(2))
    dist.all_to_all_single(found, neighbours[numbers], incoming, outgoing, group=group)
    dist.all_to_all_single(number, numbers, incoming, outgoing, group=group)
    back = order.argsort()
    places = _ranges((counts.cumsum(0) - counts)[back], counts[back])
    return found[places], number[places], counts[back]


def _ranges(starts: Tensor, lengths: Tensor) -> Tensor:
    """starts[i], starts[i] + 1, ... for lengths[i] numbers, one i after the other."""
    shift = (starts - (lengths.cumsum(0) - lengths)).repeat_interleave(lengths)
    return torch.arange(len(shift), device=starts.device) + shift


def _append(nodes: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """`nodes` with those of `found` that are new, in the order of their first occurrence, and the place of each."""
    everything = torch.cat((nodes, found))
    distinct, which = everything.unique(return_inverse=True)
    positions = torch.arange(len(everything), device=nodes.device)
    first = torch.full_like(distinct, len(everything)).scatter_reduce_(0, which, positions, "amin")
    order = first.argsort()
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=nodes.device)
    return everything[first[order]], place[which[len(nodes) :]]
