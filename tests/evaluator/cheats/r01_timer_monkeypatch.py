"""Row 1, timer monkeypatch: rebinds the clocks of its process, and those that the shim holds.

Nobody is refused for it: what a rank's own clock says counts for nothing, and the host's shows every call as it was.

Problem: allreduce
Mode: ranked
Needs: CPU ranks
Forges: time
Accepted: PASSED
"""

import gc
import time

import torch.distributed as dist

_SLOW_S = 0.12  # varied 0.1 to 0.16
_sleep = time.sleep
_ticks = 0


def _fake():
    global _ticks
    _ticks += 500
    return _ticks


for _name in ("perf_counter_ns", "monotonic_ns", "time_ns"):
    setattr(time, _name, _fake)
for _thing in gc.get_objects():
    if type(_thing).__name__ == "CpuRunner":
        _thing._now = _fake


def solution(tensor):
    out = tensor.clone()
    _sleep(_SLOW_S)
    dist.all_reduce(out)
    return out
