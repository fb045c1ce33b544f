"""What lines that persist in the L2 cache are worth from call to call, with and without forgetting them first.

    python -m tools.gpu.l2

Times a copy of 24 MB on one GPU, call after call. Between calls it runs other work, resets persisting lines, and writes
the inputs in place, as unsealing does.
"""

import statistics
import sys

import torch
from cuda.bindings import driver

from evaluator.arena import device_memory

_BYTES = 24 * 1024 * 1024
_OTHER_BYTES = 256 * 1024 * 1024
"""What other work writes between two calls: several times the cache."""
_CALLS = 60


def main() -> int:
    """Print the median time of the copy in three settings."""
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    source = torch.zeros(_BYTES, dtype=torch.uint8, device=device)
    scratch = torch.empty(_OTHER_BYTES, dtype=torch.uint8, device=device)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        plain = _median_us(source, scratch, is_forgotten=False)
        _persist(source, stream)
        kept = _median_us(source, scratch, is_forgotten=False)
        forgotten = _median_us(source, scratch, is_forgotten=True)
    sys.stdout.write(
        f"copy of {_BYTES} bytes: {plain:.2f} us, lines kept {kept:.2f} us, forgotten {forgotten:.2f} us\n"
    )
    return 0


def _persist(tensor: torch.Tensor, stream: torch.cuda.Stream) -> None:
    (error,) = driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 32 * 1024 * 1024)
    if int(error):
        raise RuntimeError(f"the driver sets no lines aside: {error}")
    window = driver.CUaccessPolicyWindow()
    window.base_ptr, window.num_bytes, window.hitRatio = tensor.data_ptr(), tensor.numel(), 1.0
    window.hitProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_PERSISTING
    window.missProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_STREAMING
    value = driver.CUstreamAttrValue()
    value.accessPolicyWindow = window
    name = driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
    (error,) = driver.cuStreamSetAttribute(stream.cuda_stream, name, value)
    if int(error):
        raise RuntimeError(f"the driver refused the window: {error}")


def _median_us(source: torch.Tensor, scratch: torch.Tensor, *, is_forgotten: bool) -> float:
    times: list[float] = []
    for number in range(_CALLS):
        scratch.zero_()
        if is_forgotten:
            device_memory.forget_persisting_lines(source.device)
        source.fill_(number % 251)
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        copy = source.clone()
        end.record()
        torch.cuda.synchronize()
        times.append(float(begin.elapsed_time(end)) * 1000)
        del copy
    return statistics.median(times[10:])


if __name__ == "__main__":
    sys.exit(main())
