"""Twin of row M8: copies through the GPU of a peer, which is one of its ranks'.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: PASSED
"""

import torch
import torch.distributed as dist


def solution(tensor):
    gpus = torch.cuda.device_count()
    assert gpus <= dist.get_world_size()
    peer = torch.device("cuda", (dist.get_rank() + 1) % gpus)
    out = tensor.to(peer, copy=True).to(tensor.device)
    torch.cuda.synchronize(peer)
    dist.all_reduce(out)
    return out
