"""Twin of row M1: every rank sums one part of what all ranks hold, and hands it to the others.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch
import torch.distributed as dist


def solution(tensor):
    world = dist.get_world_size()
    flat = tensor.reshape(-1)
    whole = torch.nn.functional.pad(flat, (0, -flat.numel() % world))
    parts = torch.empty_like(whole)
    dist.all_to_all_single(parts, whole)
    own = parts.view(world, -1).sum(0)
    total = torch.empty_like(whole)
    dist.all_gather_into_tensor(total, own)
    return total[: flat.numel()].view(tensor.shape)
