# -*- coding: utf-8 -*-
"""Twin of row 48: says that it is UTF-8, which it is, and writes its names in several scripts: größe, 大小, ±.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import torch.distributed as dist


def solution(tensor):
    größe = tensor.clone()
    dist.all_reduce(größe)
    return größe
