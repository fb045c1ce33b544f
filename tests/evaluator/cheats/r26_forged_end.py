"""Row 26, forged end: writes on the clock's page itself that its call is queued and done, and works on.

The end counts with the outputs' fingerprint under the call's key, which nobody has before the gate opens.

Problem: allreduce
Mode: benchmark
Sizes: base
Needs: GPUs
Accepted: INCOMPLETE_OUTPUT, TAMPERED
"""

import gc
import struct

import torch
import torch.distributed as dist

_CYCLES = 36_000_000  # varied 30000000 to 50000000
_QUEUED, _DONE = 4096, 4608
_gate = next(thing for thing in gc.get_objects() if type(thing).__name__ == "Gate")


def _forge():
    at = 8 * _gate._rank
    (last,) = struct.unpack_from("<Q", _gate._page, _QUEUED + at)
    number = 1 if last >= 2**31 else last + 1
    for words in (_DONE, _QUEUED):
        struct.pack_into("<Q", _gate._page, words + at, number)


def solution(tensor):
    _forge()
    out = tensor.clone()
    torch.cuda._sleep(_CYCLES)
    dist.all_reduce(out)
    return out
