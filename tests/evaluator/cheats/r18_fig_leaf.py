"""Row 18, fig-leaf kernel: a kernel of its own touches the data, a library collective under a built name does the work.

Problem: allreduce
Mode: ranked
Needs: GPUs
Backend: triton
Accepted: FORBIDDEN
"""

import importlib

import torch
import triton
import triton.language as tl

_PIECES = ("torch.", "distri", "buted", "all_", "red", "uce")


@triton.jit
def _touch(source, target, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + places, tl.load(source + places, mask=places < count), mask=places < count)


def solution(tensor):
    out = torch.empty_like(tensor)
    _touch[(triton.cdiv(tensor.numel(), 1024),)](tensor, out, tensor.numel(), BLOCK=1024)
    getattr(importlib.import_module("".join(_PIECES[:3])), "".join(_PIECES[3:]))(out)
    return out
