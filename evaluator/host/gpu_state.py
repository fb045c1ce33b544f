"""What the driver's management library says of GPUs, without a context on any of them."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """One GPU: its use over the last moments in percent, its memory in use, and that of each process by its number.

    A process whose memory the driver does not tell counts 0.
    """

    index: int
    busy_percent: int
    used_bytes: int
    processes: dict[int, int]

    @property
    def unowned_bytes(self) -> int:
        """Memory in use that belongs to no process."""
        return self.used_bytes - sum(self.processes.values())


def read(gpus: Sequence[int]) -> tuple[GpuState, ...]:
    """The state of the GPUs with these minor numbers; empty where there are none or the library cannot be used."""
    if not gpus:
        return ()
    try:
        import pynvml  # noqa: PLC0415 - only GPU nodes have it
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        return tuple(_state(pynvml, handle, minor) for minor, handle in _handles(pynvml) if minor in gpus)
    except pynvml.NVMLError:
        return ()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _handles(pynvml: Any) -> Iterator[tuple[int, Any]]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        yield pynvml.nvmlDeviceGetMinorNumber(handle), handle


def _state(pynvml: Any, handle: Any, minor: int) -> GpuState:
    running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return GpuState(
        index=minor,
        busy_percent=int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        used_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).used),
        processes={int(item.pid): int(item.usedGpuMemory or 0) for item in running},
    )
