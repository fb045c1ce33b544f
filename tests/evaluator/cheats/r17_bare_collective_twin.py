"""Twin of row 17: library collectives exchange handles once and line ranks up, the data go another way.

Problem: allreduce
Mode: ranked
Judged: source
Backend: cuda
Accepted: PASSED
"""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

_state = {}


def _prepare(shape, dtype, device):
    buffer = symm_mem.empty(shape, dtype=dtype, device=device)
    handle = symm_mem.rendezvous(buffer, dist.group.WORLD)
    names = [None] * dist.get_world_size()
    dist.all_gather_object(names, torch.cuda.get_device_name())
    sizes = torch.zeros(dist.get_world_size(), device=device)
    dist.all_gather_into_tensor(sizes, torch.ones(1, device=device))
    return buffer, handle


def solution(tensor):
    key = (tensor.shape, tensor.dtype)
    if key not in _state:
        _state[key] = _prepare(tensor.shape, tensor.dtype, tensor.device)
    buffer, handle = _state[key]
    buffer.copy_(tensor)
    handle.barrier()
    peers = [handle.get_buffer(rank, tensor.shape, tensor.dtype) for rank in range(dist.get_world_size())]
    out = torch.stack(peers).float().sum(0).to(tensor.dtype)
    dist.barrier()
    return out
