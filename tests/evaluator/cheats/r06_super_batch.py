"""Row 6, deferred work: hands out buffers and fills them all in every third call.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT, INCOMPLETE_OUTPUT, STALE_OUTPUT, NOT_FINITE, NONDETERMINISTIC
"""

import torch
import torch.distributed as dist

_BATCH = 3  # varied 2 to 5
_waiting = []


def solution(tensor):
    out = torch.zeros_like(tensor)
    _waiting.append((tensor.clone(), out))
    if len(_waiting) == _BATCH:
        together = torch.cat([share.reshape(-1) for share, _ in _waiting])
        dist.all_reduce(together)
        for result, (_, place) in zip(together.split([share.numel() for share, _ in _waiting]), _waiting):
            place.copy_(result.view(place.shape))
        _waiting.clear()
    return out
