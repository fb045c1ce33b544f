"""The driver's management library: reads GPUs without a context on any of them.

Where the driver does not answer in time, that is as if there were no library.
"""

import contextlib
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

_Answer = TypeVar("_Answer")

_MOST_GPUS = 256
"""Minor numbers are below this."""


class Unavailable(Exception):
    """The library, or something in it, cannot be used; the text says why."""


class Library:
    """The library, open for reading until `close`.

    Attributes:
        nvml: its package.
        handles: of the GPUs with the wanted minor numbers, by these, in the order of bus addresses.
    """

    def __init__(self, gpus: Sequence[int]) -> None:
        """Open it; raises Unavailable."""
        if not gpus:
            raise Unavailable("there are no GPUs")
        try:
            import pynvml  # noqa: PLC0415 - only GPU nodes have it
        except ImportError as error:
            raise Unavailable("the package nvidia-ml-py is not installed on this node") from error
        self.nvml: Any = pynvml
        self.ask("its management library", pynvml.nvmlInit)
        try:
            self.handles: dict[int, Any] = self.ask("the GPUs", lambda: dict(self._found(gpus)))
        except Unavailable:
            self.close()
            raise

    def ask(self, what: str, call: Callable[[], _Answer]) -> _Answer:
        """What `call` returns; raises Unavailable where the driver refuses, or does not answer in time."""
        try:
            return driver_calls.ask(what, call)
        except driver_calls.DriverSilent as silent:
            raise Unavailable(str(silent)) from silent
        # The second is raised where the driver is older than the package; it is none of the first.
        except (self.nvml.NVMLError, self.nvml.NVMLLibraryMismatchError) as error:
            raise Unavailable(f"the driver does not offer {what}: {error}") from error

    def close(self) -> None:
        """Release it."""
        with contextlib.suppress(Unavailable):
            self.ask("the end of the library", self.nvml.nvmlShutdown)

    def _found(self, gpus: Sequence[int]) -> Iterator[tuple[int, Any]]:
        for index in range(self.nvml.nvmlDeviceGetCount()):
            handle = self.nvml.nvmlDeviceGetHandleByIndex(index)
            if (minor := self.nvml.nvmlDeviceGetMinorNumber(handle)) in gpus:
                yield minor, handle


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
    try:
        with contextlib.closing(Library(gpus)) as library:
            return library.ask("state of the GPUs", lambda: tuple(state(library, minor) for minor in library.handles))
    except Unavailable:
        return ()


def have_room(states: Sequence[GpuState], *, gpus: Sequence[int], least_bytes: int) -> bool:
    """Whether `states` show so much free memory on every one of these GPUs. What was not read shows none."""
    return len(states) == len(gpus) and all(state.total_bytes - state.used_bytes >= least_bytes for state in states)


def order() -> tuple[int, ...]:
    """The minor numbers of all GPUs in the order of their bus addresses; empty where the library cannot be used."""
    try:
        with contextlib.closing(Library(range(_MOST_GPUS))) as library:
            return tuple(library.handles)
    except Unavailable:
        return ()


def identity(minor: int) -> tuple[str, int]:
    """The driver's name of a GPU and its compute capability, such as 90; raises Unavailable."""
    with contextlib.closing(Library((minor,))) as library:
        if minor not in library.handles:
            raise Unavailable(f"the driver does not list GPU {minor}")
        pynvml, handle = library.nvml, library.handles[minor]
        major, part = library.ask("a compute capability", lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle))
        return str(library.ask("a GPU's name", lambda: pynvml.nvmlDeviceGetName(handle))), 10 * int(major) + int(part)


def state(library: Library, minor: int) -> GpuState:
    """The state of a GPU; for calls in `Library.ask`."""
    pynvml, handle = library.nvml, library.handles[minor]
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


def reading(library: Library, minor: int, *, moment: str) -> GpuReading:
    """Clocks, power, temperature and users of a GPU; for calls in `Library.ask`."""
    pynvml, handle, used = library.nvml, library.handles[minor], state(library, minor)
    reasons = int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    return GpuReading(
        gpu=minor,
        moment=moment,
        sm_mhz=int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        memory_mhz=int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
        watts=pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        celsius=int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        throttled_by=tuple(name for bit, name in _REASONS.items() if reasons & bit),
        used_bytes=used.used_bytes,
        processes=len(used.processes),
        memory_percent=used.memory_percent,
    )
