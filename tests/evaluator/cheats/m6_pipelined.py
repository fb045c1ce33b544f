"""Row M6, cross-call pipelining: starts the communication, returns, and waits for it in the next call.

Problem: allreduce
Mode: check
Accepted: INCOMPLETE_OUTPUT, WRONG_RESULT, STALE_OUTPUT, NOT_FINITE
"""

import threading
import time

import torch.distributed as dist

_LATER_S = 0.01  # varied 0.005 to 0.02
_pending = []


def solution(tensor):
    for worker in _pending:
        worker.join()
    _pending.clear()
    out = tensor.clone()

    def communicate():
        time.sleep(_LATER_S if dist.get_rank() else 0.0)
        dist.all_reduce(out)

    _pending.append(threading.Thread(target=communicate))
    _pending[0].start()
    return out
