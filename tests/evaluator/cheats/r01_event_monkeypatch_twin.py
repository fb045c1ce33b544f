"""Twin of row 1 on GPUs: times two right ways with CUDA events in its first call, and all ranks take the same one.

Problem: allreduce
Mode: benchmark
Sizes: base
Needs: GPUs
Accepted: PASSED
"""

import torch
import torch.distributed as dist

_chosen = None


def _in_place(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out


def _gathered(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.stack(parts).float().sum(0).to(tensor.dtype)


def _time(way, tensor):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    way(tensor)
    begin.record()
    way(tensor)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def solution(tensor):
    global _chosen
    if _chosen is None:
        ways = (_in_place, _gathered)
        times = torch.tensor([_time(way, tensor) for way in ways], device=tensor.device)
        dist.all_reduce(times)
        _chosen = ways[int(times.argmin())]
    return _chosen(tensor)
