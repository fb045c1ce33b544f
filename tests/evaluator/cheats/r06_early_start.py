"""Row 6, work before the clock: computes when a call is loaded, from the inputs that it has then.

Those of the call that is loaded have not come yet: they come with the message that starts the clock.

Problem: allreduce
Mode: check
Needs: CPU ranks
Accepted: NONDETERMINISTIC, STALE_OUTPUT, WRONG_RESULT
"""

import sys

import torch.distributed as dist

_shim = sys.modules["evaluator.arena.rank.shim"]
_load = _shim.Shim._load
_ready = []


def _work(tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out


def _early(self, command, descriptors):
    _load(self, command, descriptors)
    if self._buffer._call is not None:
        _ready.append(_work(*self._buffer.call.arguments))


_shim.Shim._load = _early


def solution(tensor):
    early = _ready.pop() if _ready else None
    return _work(tensor) if early is None or early.shape != tensor.shape else early
