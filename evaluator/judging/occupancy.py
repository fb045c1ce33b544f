"""How many warps of a launch fit on a multiprocessor, where the profiler does not say."""

from dataclasses import dataclass

from evaluator.contract import WorkName
from evaluator.hardware.machines import machines


@dataclass(frozen=True, kw_only=True)
class _Limits:
    """What one multiprocessor holds: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".

    Registers are given to warps in units of 256; a block takes 1 KiB of shared memory more than it asks for.
    """

    shared_bytes: int
    warps: int = 64
    blocks: int = 32
    registers: int = 65536


_WARP, _REGISTER_UNIT, _RESERVED_BYTES, _MOST_THREADS = 32, 256, 1024, 1024
_LIMITS = {
    "8.0": _Limits(shared_bytes=164 * 1024),
    "9.0": _Limits(shared_bytes=228 * 1024),
    "10.0": _Limits(shared_bytes=228 * 1024),
}
"""By compute capability."""


def estimate(work: WorkName, *, gpu: str | None) -> float | None:
    """The share of a multiprocessor's warps that a launch of this shape fills, 0 to 1; None where nothing says."""
    machine = next((each for each in machines().values() if each.model == gpu), None)
    if machine is None or machine.sms is None:
        return None
    limits = _LIMITS.get(machine.capability)
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
    return min(float(resident), blocks / machine.sms) * warps / limits.warps if resident else None
