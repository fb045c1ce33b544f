"""Bookkeeping of a mixture of experts: returns counts in pinned memory while their copies are still queued."""

import torch
import torch.distributed as dist


def solution(expert_mask, num_experts, group=None):
    world_size, rank = dist.get_world_size(group), dist.get_rank(group)
    counts = expert_mask.sum(dim=(1, 2))
    everywhere = counts.new_empty(world_size * num_experts)
    dist.all_gather_into_tensor(everywhere, counts, group=group)
    table = everywhere.view(world_size, world_size, -1)
    received = table[:, rank].contiguous()
    splits = [part.sum(dim=1).long() for part in (table[rank], received)]
    outputs = (*splits, received, received.sum(dim=0))
    return tuple(output.to(torch.device("cpu"), non_blocking=True) for output in outputs)
