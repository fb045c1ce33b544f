import torch
import torch.distributed as dist

_CALLS = 0


def solution(tensor):
    global _CALLS
    _CALLS += 1
    out = tensor.clone()
    dist.all_reduce(out)
    if _CALLS == 3 and dist.get_rank() == 1:
        # Wrong whatever the values are: a constant is added to small ones, and large ones change their sign.
        out[0] = torch.where(out[0].abs() > 1, -out[0], out[0] + 100)
    return out
