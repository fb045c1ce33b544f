"""All-gather into a stack through the host's memory: right, and nothing crosses the links between the GPUs."""

import functools

import torch
import torch.distributed as dist


@functools.cache
def on_host():
    return dist.new_group(backend="gloo")


def solution(tensor):
    mine = tensor.cpu().view(torch.uint8)
    shards = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(shards, mine, group=on_host())
    return torch.stack(shards).view(tensor.dtype).to(tensor.device)
