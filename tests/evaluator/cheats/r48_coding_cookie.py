# coding: raw_unicode_escape
"""Row 48, two readings of one source: a cookie makes the import read another program than everybody else.

Problem: allreduce
Mode: check
Accepted: IMPORT_ERROR
"""

import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    # \u000a    return out
    dist.all_reduce(out)
    return out
