"""Twin of row 2: asks the C library for the time by itself, to know how long its parts take.

Problem: allreduce
Mode: check
Accepted: PASSED
"""

import ctypes

import torch.distributed as dist

_times = []


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _now():
    moment = _Time()
    ctypes.CDLL(None).clock_gettime(1, ctypes.byref(moment))
    return moment.seconds * 10**9 + moment.nanoseconds


def solution(tensor):
    start = _now()
    out = tensor.clone()
    dist.all_reduce(out)
    _times.append(_now() - start)
    return out
