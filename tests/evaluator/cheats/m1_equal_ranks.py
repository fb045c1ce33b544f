"""Row M1, equal-across-ranks collapse: the own share times the number of ranks.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT
"""

import torch.distributed as dist


def solution(tensor):
    return tensor * dist.get_world_size()
