"""What GPUs did between two moments, by the driver's performance counters (NVML's GPM, on Hopper and later).

They serve alarms alone. So whatever goes wrong here means that nothing was read, and never ends an evaluation.
"""

import contextlib
import functools
import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from evaluator.host.machine import driver_calls, nvml

logger = logging.getLogger(__name__)

_MIB = 1024**2
_MOST_MIB_PER_S = 1e7
_MOST_PERCENT = 110.0
"""More than this is no reading: 10 TB/s over PCIe, and a share of the bandwidth well above all of it."""


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What one GPU did: bytes over PCIe, and which share of its memory's bandwidth was used, in percent."""

    pcie_sent_bytes: int
    pcie_received_bytes: int
    dram_percent: int

    @classmethod
    def over(cls, seconds: float, *, sent: float, received: float, dram_percent: float) -> Self | None:
        """The same from rates: MiB a second sent and received, and a percentage. None where one of them is none.

        Over a very short time the driver may answer what is no number.
        """
        is_read = _is_within(_MOST_MIB_PER_S, sent, received) and _is_within(_MOST_PERCENT, dram_percent)
        if not is_read or not _is_within(math.inf, seconds):
            return None
        return cls(
            pcie_sent_bytes=int(sent * _MIB * seconds),
            pcie_received_bytes=int(received * _MIB * seconds),
            dram_percent=round(dram_percent),
        )


def _is_within(most: float, *values: float) -> bool:
    return all(math.isfinite(value) and 0 <= value <= most for value in values)


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
        self._held: list[Any] = []
        if not gpus:
            return
        try:
            import pynvml  # noqa: PLC0415 - only GPU nodes have it
        except ImportError:
            return
        with _left_unread():
            driver_calls.ask("the library of the performance counters", pynvml.nvmlInit)
            self._nvml = pynvml
            self._handles = driver_calls.ask("the performance counters", lambda: _with_counters(pynvml, gpus))

    def close(self) -> None:
        """Release the library, and what was sampled and not taken."""
        self._free(tuple(self._held))
        library, self._nvml, self._handles = self._nvml, None, {}
        if library is not None:
            with _left_unread():
                driver_calls.ask("the end of the library", library.nvmlShutdown)

    def now(self) -> Moment | None:
        """The counters now; None where they cannot be read."""
        if not self._handles:
            return None
        with _left_unread():
            samples = driver_calls.ask("a sample of the performance counters", self._sampled)
            self._held.extend(samples)
            return Moment(at=time.monotonic(), samples=samples)
        return None

    def since(self, first: Moment | None) -> dict[int, Activity]:
        """What each GPU did since `first`, by minor number; empty where that cannot be read."""
        last = self.now() if first is not None else None
        found: dict[int, Activity | None] = {}
        if first is not None and last is not None:
            with _left_unread():
                found = driver_calls.ask(
                    "what the performance counters counted", functools.partial(self._activities, first, last)
                )
        self._free(tuple(self._held))
        return {gpu: activity for gpu, activity in found.items() if activity is not None}

    def _sampled(self) -> tuple[Any, ...]:
        """A sample of every GPU; where one cannot be taken, none is kept."""
        samples = []
        try:
            for handle in self._handles.values():
                samples.append(self._nvml.nvmlGpmSampleAlloc())
                self._nvml.nvmlGpmSampleGet(handle, samples[-1])
        except Exception:
            self._release(samples)
            raise
        return tuple(samples)

    def _activities(self, first: Moment, last: Moment) -> dict[int, Activity | None]:
        pairs = zip(self._handles, first.samples, last.samples, strict=True)
        return {gpu: self._between(*pair, seconds=last.at - first.at) for gpu, *pair in pairs}

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
        library.nvmlGpmMetricsGet(asked)
        answers = [asked.metrics[index] for index in range(len(wanted))]
        if any(answer.nvmlReturn != library.NVML_SUCCESS for answer in answers):
            return None
        sent, received, dram = (answer.value for answer in answers)
        return Activity.over(seconds, sent=sent, received=received, dram_percent=dram)

    def _free(self, samples: Sequence[Any]) -> None:
        self._held.clear()
        if samples:
            with _left_unread():
                driver_calls.ask("the end of samples", lambda: self._release(samples))

    def _release(self, samples: Sequence[Any]) -> None:
        for sample in samples:
            with _left_unread():
                self._nvml.nvmlGpmSampleFree(sample)


def _with_counters(pynvml: Any, gpus: Sequence[int]) -> dict[int, Any]:
    """The handles of the GPUs by minor number; none unless all of them have counters."""
    found = {minor: handle for minor, handle in nvml.handles(pynvml) if minor in gpus}
    has_all = all(pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice for handle in found.values())
    return found if has_all else {}


@contextlib.contextmanager
def _left_unread() -> Iterator[None]:
    """Any error inside is logged for the operator, and ends there: drivers and their library differ in what they do."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - what only serves alarms must not end an evaluation
        logger.info("GPU performance counters could not be read: %r", error)
