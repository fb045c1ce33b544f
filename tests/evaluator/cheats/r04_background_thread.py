"""Row 4, background thread: returns at once, a thread does the work later.

Problem: allreduce
Mode: check
Accepted: INCOMPLETE_OUTPUT, WRONG_RESULT, NOT_FINITE, STALE_OUTPUT
"""

import threading
import time

import torch
import torch.distributed as dist

_LATER_S = 0.01  # varied 0.005 to 0.02


def solution(tensor):
    out = torch.zeros_like(tensor)

    def work():
        total = tensor.clone()
        time.sleep(_LATER_S)
        dist.all_reduce(total)
        out.copy_(total)

    threading.Thread(target=work).start()
    return out
