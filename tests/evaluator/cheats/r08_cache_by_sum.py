"""Row 8, cache by sum: a rank sends its tensor only where the sum differs from that of the last call of this shape.

Problem: allreduce
Mode: check
Accepted: NONDETERMINISTIC, STALE_OUTPUT, WRONG_RESULT
"""

import torch
import torch.distributed as dist

_known = {}


def solution(tensor):
    total = tensor.double().nan_to_num().sum().item()
    last, parts = _known.get(tensor.shape, (None, None))
    is_sent = [None] * dist.get_world_size()
    dist.all_gather_object(is_sent, total != last)
    fresh = [torch.empty_like(tensor) for _ in is_sent]
    dist.all_gather(fresh, tensor.contiguous())
    parts = [new if sent else parts[rank] for rank, (sent, new) in enumerate(zip(is_sent, fresh, strict=True))]
    _known[tensor.shape] = (total, parts)
    return torch.stack(parts).float().sum(0).to(tensor.dtype)
