"""Twin of row 40: reads its own source.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import pathlib

import torch.distributed as dist

_TEXT = pathlib.Path(__file__).read_text()


def solution(tensor):
    assert "def solution" in _TEXT
    out = tensor.clone()
    dist.all_reduce(out)
    return out
