"""Twin of row 4: a thread does half of the work and has ended when the call returns.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import threading

import torch.distributed as dist


def solution(tensor):
    out = tensor.clone()
    worker = threading.Thread(target=dist.all_reduce, args=(out,))
    worker.start()
    worker.join()
    return out
