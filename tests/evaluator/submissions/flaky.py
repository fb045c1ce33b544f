import torch
import torch.distributed as dist

_SHAPES = []


def solution(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    if tensor.shape not in _SHAPES:
        _SHAPES.append(tensor.shape)
        # Once, in the first call of a second shape: this one is compared, and no further call follows it at once.
        if len(_SHAPES) == 2 and dist.get_rank() == 1:
            # Wrong whatever the values are: a constant is added to small ones, and large ones change their sign.
            out = torch.where(out.abs() > 1, -out, out + 100)
    return out
