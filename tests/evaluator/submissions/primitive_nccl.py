"""All-gather into a stack by NCCL's own collective."""

import torch
import torch.distributed as dist


def solution(tensor):
    out = torch.empty((dist.get_world_size(), *tensor.shape), dtype=tensor.dtype, device=tensor.device)
    dist.all_gather_into_tensor(out, tensor.contiguous())
    return out
