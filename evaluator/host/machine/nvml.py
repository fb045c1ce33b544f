"""Reads GPUs through the driver's management library, without a context on any of them.

Where the driver does not answer in time, that is as if there were no library.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from evaluator.contract import GpuReading
from evaluator.host.machine import driver_calls

_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""Reasons for clocks below the requested ones: bits of NVML's nvmlClocksEventReasons."""


_Seen = TypeVar("_Seen")


_MOST_GPUS = 256
"""Minor numbers are below this."""


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """One GPU: its recent utilisation and that of its memory in percent, its memory, and what is in use, by process.

    A process whose memory the driver does not report counts 0.
    """

    index: int
    busy_percent: int
    total_bytes: int
    used_bytes: int
    processes: dict[int, int]
    memory_percent: int = 0

    @property
    def unowned_bytes(self) -> int:
        """Memory in use that belongs to no process."""
        return self.used_bytes - sum(self.processes.values())


def read(gpus: Sequence[int]) -> tuple[GpuState, ...]:
    """The state of the GPUs with these minor numbers; empty where there are none or the library cannot be used."""
    return each(gpus, state)


def have_room(states: Sequence[GpuState], *, gpus: Sequence[int], least_bytes: int) -> bool:
    """Whether `states` show so much free memory on every one of these GPUs. What was not read shows none."""
    return len(states) == len(gpus) and all(state.total_bytes - state.used_bytes >= least_bytes for state in states)


def order() -> tuple[int, ...]:
    """The minor numbers of all GPUs in the order of their bus addresses; empty where the library cannot be used."""
    return each(range(_MOST_GPUS), lambda _nvml, _handle, minor: minor)


def readings(gpus: Sequence[int], *, moment: str) -> tuple[GpuReading, ...]:
    """Clocks, power and temperature of the GPUs with these minor numbers; empty as for `read`."""
    return each(gpus, functools.partial(reading, moment=moment))


def each(gpus: Sequence[int], look: Callable[[Any, Any, int], _Seen]) -> tuple[_Seen, ...]:
    """What `look` makes of library, handle and minor number of each GPU; empty as for `read`."""
    if not gpus:
        return ()
    try:
        return driver_calls.ask("state of the GPUs", functools.partial(_each, gpus, look))
    except driver_calls.DriverSilent:
        return ()


def _each(gpus: Sequence[int], look: Callable[[Any, Any, int], _Seen]) -> tuple[_Seen, ...]:
    try:
        import pynvml  # noqa: PLC0415 - only GPU nodes have it
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        return tuple(look(pynvml, handle, minor) for minor, handle in handles(pynvml) if minor in gpus)
    # The second is raised where the driver is older than the package; it is none of the first.
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
        return ()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def handles(pynvml: Any) -> Iterator[tuple[int, Any]]:
    """Minor number and handle of every GPU, in the order of bus addresses; `pynvml` has been initialised."""
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        yield pynvml.nvmlDeviceGetMinorNumber(handle), handle


def state(pynvml: Any, handle: Any, minor: int) -> GpuState:
    """The state of the GPU of `handle`."""
    running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    used = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return GpuState(
        index=minor,
        busy_percent=int(used.gpu),
        memory_percent=int(used.memory),
        total_bytes=int(memory.total),
        used_bytes=int(memory.used),
        processes={int(item.pid): int(item.usedGpuMemory or 0) for item in running},
    )


def reading(pynvml: Any, handle: Any, minor: int, *, moment: str) -> GpuReading:
    """Clocks, power and temperature of the GPU of `handle`."""
    reasons = int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    return GpuReading(
        gpu=minor,
        moment=moment,
        sm_mhz=int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        memory_mhz=int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
        watts=pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        celsius=int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        throttled_by=tuple(name for bit, name in _REASONS.items() if reasons & bit),
    )
