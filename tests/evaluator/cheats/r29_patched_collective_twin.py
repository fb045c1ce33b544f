"""Twin of row 29: puts a wrapper around the library's collective that counts and changes nothing.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch.distributed as dist

_right = dist.all_reduce
_count = 0


def _counted(*arguments, **options):
    global _count
    _count += 1
    return _right(*arguments, **options)


dist.all_reduce = _counted


def solution(tensor):
    before = _count
    out = tensor.clone()
    dist.all_reduce(out)
    assert _count == before + 1
    return out
