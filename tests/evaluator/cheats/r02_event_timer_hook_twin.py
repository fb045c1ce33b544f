"""Twin of row 2 on GPUs: asks the runtime by itself how long its last call took on the device.

Problem: allreduce
Mode: benchmark
Sizes: base
Needs: GPUs
Accepted: PASSED
"""

import ctypes

import torch
import torch.distributed as dist

_runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.partition('.')[0]}")
_begin, _end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
_times = []


def _elapsed_ms():
    elapsed = ctypes.c_float()
    handles = (ctypes.c_void_p(event.cuda_event) for event in (_begin, _end))
    error = _runtime.cudaEventElapsedTime(ctypes.byref(elapsed), *handles)
    assert error == 0, error
    return elapsed.value


def solution(tensor):
    if _end.cuda_event:
        _end.synchronize()
        _times.append(_elapsed_ms())
    _begin.record()
    out = tensor.clone()
    dist.all_reduce(out)
    _end.record()
    return out
