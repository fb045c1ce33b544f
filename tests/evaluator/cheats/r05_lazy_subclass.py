"""Row 5, lazy tensor: returns a subclass that computes when it is looked at.

Problem: allreduce
Mode: check
Accepted: WRONG_SHAPE, WRONG_RESULT, INCOMPLETE_OUTPUT
"""

import torch
import torch.distributed as dist


class _Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [item.as_subclass(torch.Tensor) if isinstance(item, _Lazy) else item for item in args]
        for item in plain:
            if isinstance(item, torch.Tensor) and getattr(args[0], "pending", False):
                args[0].pending = False
                dist.all_reduce(item)
        return func(*plain, **(kwargs or {}))


def solution(tensor):
    out = tensor.clone().as_subclass(_Lazy)
    out.pending = True
    return out
