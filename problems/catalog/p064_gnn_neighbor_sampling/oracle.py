"""What each rank owes: integers, node by node."""

import torch
from torch import Tensor

from problems.catalog.p064_gnn_neighbor_sampling.inputs import make_inputs
from problems.values import Call


def expected(call: Call) -> tuple[Tensor, ...]:
    """`node`, `row`, `col`, `edge`: the sampled neighbourhood of the rank's seeds."""
    own = make_inputs(call)
    owners = own["node_to_rank"].tolist()
    graphs = []
    for rank in range(call.world_size):
        peer = make_inputs(call.at_rank(rank))
        graphs.append((peer["local_adj_row_ptr"].tolist(), peer["local_adj_col"].tolist()))
    nodes = own["seed_nodes"].tolist()
    place = {node: position for position, node in enumerate(nodes)}
    row, col, edge = [], [], []
    start = 0
    for fanout in own["fanouts"]:
        frontier = nodes[start:]
        start = len(nodes)
        for node in frontier:
            pointers, neighbours = graphs[owners[node]]
            for number in range(pointers[node], min(pointers[node] + fanout, pointers[node + 1])):
                found = neighbours[number]
                if found not in place:
                    place[found] = len(nodes)
                    nodes.append(found)
                row.append(place[found])
                col.append(place[node])
                edge.append(number)
    return tuple(torch.tensor(numbers, device=call.device) for numbers in (nodes, row, col, edge))
