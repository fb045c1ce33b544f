"""Twin of row 36: a helper process and a pool of threads that work in a call and sleep between calls.

Problem: allreduce
Mode: ranked
Accepted: PASSED
"""

import concurrent.futures
import os

import torch
import torch.distributed as dist

_ask, _asked = os.pipe()
_answer, _answered = os.pipe()
if os.fork() == 0:
    while word := os.read(_ask, 8):
        os.write(_answered, word)
    os._exit(0)
_pool = concurrent.futures.ThreadPoolExecutor(2)


def solution(tensor):
    os.write(_asked, b"working!")
    halves = _pool.map(torch.clone, tensor.chunk(2))
    out = torch.cat(list(halves))
    dist.all_reduce(out)
    assert os.read(_answer, 8) == b"working!"
    return out
