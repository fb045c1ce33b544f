"""Row 8, cache by samples: the key is the shape and a few elements.

Problem: allreduce
Mode: check
Accepted: NONDETERMINISTIC, STALE_OUTPUT, WRONG_RESULT
"""

import torch
import torch.distributed as dist

_SAMPLES = 12  # varied 4 to 16
_known = {}


def solution(tensor):
    places = torch.linspace(0, tensor.numel() - 1, _SAMPLES).long()
    key = (tensor.shape, *tensor.reshape(-1)[places].tolist())
    hit = [None] * dist.get_world_size()
    dist.all_gather_object(hit, key in _known)
    if not all(hit):
        out = tensor.clone()
        dist.all_reduce(out)
        _known[key] = out
    return _known[key].clone()
