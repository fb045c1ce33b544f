"""How many warps of a launch fit on a multiprocessor, where the profiler does not say."""

from dataclasses import dataclass

from evaluator.contract import WorkName


@dataclass(frozen=True, kw_only=True)
class _Limits:
    """What one multiprocessor holds, and how many of them a GPU has.

    Compute capabilities 9.0 and 10.0 have the same limits: CUDA C++ Programming Guide, "Technical Specifications per
    Compute Capability". Registers are given to warps in units of 256; a block takes 1 KiB of shared memory more than
    it asks for.
    """

    multiprocessors: int
    warps: int = 64
    blocks: int = 32
    registers: int = 65536
    shared_bytes: int = 228 * 1024


_WARP, _REGISTER_UNIT, _RESERVED_BYTES, _MOST_THREADS = 32, 256, 1024, 1024
_LIMITS = {"H100": _Limits(multiprocessors=132), "H200": _Limits(multiprocessors=132)}
"""NVIDIA's datasheets of the SXM boards: 132 multiprocessors each. Of a B200 none says how many are enabled."""


def estimate(work: WorkName, *, gpu: str | None) -> float | None:
    """The share of a multiprocessor's warps that a launch of this shape fills, 0 to 1; None where nothing says."""
    limits = _LIMITS.get(gpu or "")
    threads = work.block[0] * work.block[1] * work.block[2]
    blocks = work.grid[0] * work.grid[1] * work.grid[2]
    if limits is None or not 0 < threads <= _MOST_THREADS or not blocks or not work.registers:
        return None
    warps = -(-threads // _WARP)
    a_warp = -(-work.registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    resident = min(
        limits.blocks,
        limits.warps // warps,
        limits.registers // a_warp // warps,
        limits.shared_bytes // (work.shared_bytes + _RESERVED_BYTES),
    )
    return min(float(resident), blocks / limits.multiprocessors) * warps / limits.warps if resident else None
