"""All-gather into a stack by NCCL's own collective."""

import torch
import torch.distributed as dist


def solution(tensor):
    world, rows = dist.get_world_size(), tensor.shape[0]
    out = torch.empty((world * rows, *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)
    dist.all_gather_into_tensor(out, tensor.contiguous())
    return out.view(world, *tensor.shape)
