"""Row 17, bare collective: imported under another name.

Problem: allreduce
Mode: ranked
Judged: source
Backend: cuda
Accepted: FORBIDDEN
"""

from torch.distributed import all_gather_into_tensor as _copy


def solution(tensor):
    import torch

    everything = tensor.new_empty((4, *tensor.shape))
    _copy(everything.view(-1), tensor.view(-1))
    return torch.sum(everything, 0)
