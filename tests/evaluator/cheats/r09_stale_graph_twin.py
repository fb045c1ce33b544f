"""Twin of row 9: the same graph, with the new contents copied in first.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: PASSED
"""

import torch
import torch.distributed as dist

_graphs = {}


def solution(tensor):
    if tensor.shape not in _graphs:
        held, out = tensor.clone(), torch.empty_like(tensor)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out.copy_(held)
            dist.all_reduce(out)
        _graphs[tensor.shape] = graph, held, out
    graph, held, out = _graphs[tensor.shape]
    held.copy_(tensor)
    graph.replay()
    return out.clone()
