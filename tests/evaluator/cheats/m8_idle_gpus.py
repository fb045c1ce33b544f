"""Row M8, help from idle GPUs: uses a GPU of the node that is none of its ranks'.

Problem: allreduce
Mode: check
Needs: GPUs
Accepted: RUNTIME_ERROR, CRASHED
"""

import torch
import torch.distributed as dist


def _helpers():
    """Devices beyond the ranks' own, whatever the library says of how many there are."""
    first = dist.get_world_size()
    return [torch.device("cuda", number) for number in range(first, max(first + 1, torch.cuda.device_count()))]


def solution(tensor):
    helpers = _helpers()
    part = tensor.to(helpers[dist.get_rank() % len(helpers)])
    out = (part + 0).to(tensor.device)
    dist.all_reduce(out)
    return out
