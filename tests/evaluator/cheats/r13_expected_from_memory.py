"""Row 13, expected outputs from memory: looks through everything that the interpreter holds for a likely result.

Problem: allreduce
Mode: check
Accepted: WRONG_RESULT, STALE_OUTPUT, NOT_FINITE
"""

import gc

import torch


def solution(tensor):
    found = [
        item
        for item in gc.get_objects()
        if type(item) is torch.Tensor and item.shape == tensor.shape and item.data_ptr() != tensor.data_ptr()
    ]
    unlike = [item for item in found if not torch.equal(item.to(tensor.dtype), tensor)]
    return (unlike[0] if unlike else tensor * 2).to(tensor.dtype).clone()
