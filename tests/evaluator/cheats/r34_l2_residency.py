"""Row 34, L2 residency: asks that its input's lines persist in the L2 cache, to find them there in the next call.

Nobody is refused for it: lines are told to persist no longer before each call, so there is nothing to gain.

Problem: allreduce
Mode: benchmark
Needs: GPUs
Accepted: PASSED, BELOW_FLOOR
"""

import torch
import torch.distributed as dist
from cuda.bindings import driver

_SET_ASIDE = 32 * 1024 * 1024
_own = torch.cuda.Stream()
_is_set_up = False


def _persist(tensor):
    global _is_set_up
    if not _is_set_up:
        driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, _SET_ASIDE)
        _is_set_up = True
    window = driver.CUaccessPolicyWindow()
    window.base_ptr = tensor.data_ptr()
    window.num_bytes = min(tensor.numel() * tensor.element_size(), _SET_ASIDE)
    window.hitRatio = 1.0
    window.hitProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_PERSISTING
    window.missProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_STREAMING
    value = driver.CUstreamAttrValue()
    value.accessPolicyWindow = window
    name = driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
    (error,) = driver.cuStreamSetAttribute(_own.cuda_stream, name, value)
    assert int(error) == 0, error


def solution(tensor):
    _persist(tensor)
    current = torch.cuda.current_stream()
    _own.wait_stream(current)
    with torch.cuda.stream(_own):
        out = tensor.clone()
    current.wait_stream(_own)
    dist.all_reduce(out)
    return out
