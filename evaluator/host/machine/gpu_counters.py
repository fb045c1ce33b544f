"""What GPUs did between two moments, by the driver's performance counters (NVML's GPM, on Hopper and later)."""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.host.machine import nvml

_MIB = 1024**2


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What one GPU did: bytes over PCIe, and which share of its memory's bandwidth was used, in percent."""

    pcie_sent_bytes: int
    pcie_received_bytes: int
    dram_percent: int


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The counters of all GPUs at a moment, until `GpuCounters.since` takes them."""

    at: float
    samples: tuple[Any, ...]


class GpuCounters:
    """The counters of the GPUs with these minor numbers. Where the driver has none, every answer is empty."""

    def __init__(self, gpus: Sequence[int]) -> None:
        self._nvml: Any = None
        self._handles: dict[int, Any] = {}
        if not gpus:
            return
        try:
            import pynvml  # noqa: PLC0415 - only GPU nodes have it
        except ImportError:
            return
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            self._nvml = pynvml
            found = {minor: handle for minor, handle in nvml.handles(pynvml) if minor in gpus}
            if all(pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice for handle in found.values()):
                self._handles = found

    def close(self) -> None:
        """Release the library."""
        library, self._nvml, self._handles = self._nvml, None, {}
        if library is not None:
            with contextlib.suppress(library.NVMLError):
                library.nvmlShutdown()

    def now(self) -> Moment | None:
        """The counters now; None where they cannot be read."""
        if not self._handles:
            return None
        taken: list[Any] = []
        try:
            for handle in self._handles.values():
                taken.append(self._nvml.nvmlGpmSampleAlloc())
                self._nvml.nvmlGpmSampleGet(handle, taken[-1])
        except self._nvml.NVMLError:
            self._free(taken)
            return None
        return Moment(at=time.monotonic(), samples=tuple(taken))

    def since(self, first: Moment | None) -> dict[int, Activity]:
        """What each GPU did since `first`, by minor number; empty where that cannot be read."""
        if first is None:
            return {}
        last = self.now()
        try:
            if last is None:
                return {}
            seconds = last.at - first.at
            pairs = zip(self._handles, first.samples, last.samples, strict=True)
            found = {gpu: self._between(*pair, seconds=seconds) for gpu, *pair in pairs}
        finally:
            self._free([*first.samples, *(last.samples if last is not None else ())])
        return {gpu: activity for gpu, activity in found.items() if activity is not None}

    def _between(self, first: Any, last: Any, *, seconds: float) -> Activity | None:
        library = self._nvml
        wanted = (
            library.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
            library.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
            library.NVML_GPM_METRIC_DRAM_BW_UTIL,
        )
        asked = library.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = library.NVML_GPM_METRICS_GET_VERSION, len(wanted)
        asked.sample1, asked.sample2 = first, last
        for index, metric in enumerate(wanted):
            asked.metrics[index].metricId = metric
        try:
            library.nvmlGpmMetricsGet(asked)
        except library.NVMLError:
            return None
        answers = [asked.metrics[index] for index in range(len(wanted))]
        if any(answer.nvmlReturn != library.NVML_SUCCESS for answer in answers):
            return None
        sent, received, dram = (answer.value for answer in answers)
        return Activity(
            pcie_sent_bytes=int(sent * _MIB * seconds),
            pcie_received_bytes=int(received * _MIB * seconds),
            dram_percent=round(dram),
        )

    def _free(self, samples: Sequence[Any]) -> None:
        for sample in samples:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlGpmSampleFree(sample)
