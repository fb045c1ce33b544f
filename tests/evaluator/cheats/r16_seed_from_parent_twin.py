"""Twin of row 16: reads its own rank and world size from the environment.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import os

import torch.distributed as dist


def solution(tensor):
    assert int(os.environ["RANK"]) == dist.get_rank()
    assert int(os.environ["WORLD_SIZE"]) == dist.get_world_size()
    out = tensor.clone()
    dist.all_reduce(out)
    return out
