"""Row 17, bare collective: backend cuda by name, a library collective behind a helper and another name in fact.

Problem: allreduce
Mode: ranked
Judged: source
Backend: cuda
Accepted: FORBIDDEN
"""

import torch.distributed as transport


def _exchange(values):
    send = transport.all_reduce
    send(values)
    return values


def solution(tensor):
    buffer = tensor.clone()
    return _exchange(buffer)
