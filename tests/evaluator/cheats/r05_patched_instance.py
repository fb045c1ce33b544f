"""Row 5, lazy tensor: a plain tensor whose own `detach`, `clone` and `contiguous` do the work when they are called.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT, INCOMPLETE_OUTPUT
"""

import torch
import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    state = []

    def finish(*arguments, **options):
        if not state:
            state.append(True)
            dist.all_reduce(out)
        return torch.Tensor.detach(out)

    for name in ("detach", "clone", "contiguous", "cpu", "data_ptr", "numel", "resolve_conj"):
        setattr(out, name, finish)
    return out
