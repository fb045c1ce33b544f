"""Row 9, stale graph replay: a graph over the contents of the first call, replayed without copying the new ones in.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: STALE_OUTPUT, WRONG_RESULT
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
        _graphs[tensor.shape] = graph, out
    graph, out = _graphs[tensor.shape]
    graph.replay()
    return out.clone()
