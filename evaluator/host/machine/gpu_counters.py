"""What GPUs did between two moments, by the driver's counters: bytes over PCIe, and the share of memory bandwidth used.

They serve alarms alone. So whatever goes wrong here means that nothing was read, and never ends an evaluation.
"""

import contextlib
import functools
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.host.machine import driver_calls, nvml

logger = logging.getLogger(__name__)

LEAST_S = 0.3
"""The shortest time over which a share of the memory's bandwidth is read.

NVML's performance monitoring (GPM, on Hopper and later) renews its samples every 100 ms. Two samples within that time
held no number, or the rates of a window that began before the first (H200, driver 580.159.04, 23 November 2026). So at
least two thirds of what is read here lies between the two moments."""

_WRAP = 2**32
"""The counters of PCIe have 32 bits, which 57 GB a second fill in 75 ms."""

_MOST_PERCENT = 110.0
"""More than this is no share of a bandwidth."""


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What one GPU did.

    Attributes:
        pcie_sent_bytes, pcie_received_bytes: over PCIe, protocol included, and at least: beyond 4 GiB the driver's
            counters begin again.
        dram_percent: the share of its memory's bandwidth; None where the time was too short, or nothing was read.
    """

    pcie_sent_bytes: int
    pcie_received_bytes: int
    dram_percent: int | None


def counted(first: int, last: int) -> int:
    """What a counter of 32 bits counted, if it began again once at the most."""
    return (last - first) % _WRAP


def share_in_percent(value: float) -> int | None:
    """A share of the bandwidth as the driver says it, rounded; None where it is none."""
    return round(value) if 0 <= value <= _MOST_PERCENT else None


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The counters of all GPUs at a moment, until `GpuCounters.since` takes them.

    By minor number: `pcie` has bytes sent and received, `samples` those of performance monitoring, if there is any.
    """

    at: float
    pcie: dict[int, tuple[int, int]]
    samples: dict[int, Any]


class GpuCounters:
    """The counters of the GPUs with these minor numbers. Where the driver has none, every answer is empty."""

    def __init__(self, gpus: Sequence[int]) -> None:
        self._nvml: Any = None
        self._handles: dict[int, Any] = {}
        self._monitored: dict[int, Any] = {}
        self._held: list[Any] = []
        if not gpus:
            return
        try:
            import pynvml  # noqa: PLC0415 - only GPU nodes have it
        except ImportError:
            return
        with _left_unread():
            driver_calls.ask("the library of the counters", pynvml.nvmlInit)
            self._nvml = pynvml
            self._handles = driver_calls.ask("the GPUs with counters", lambda: _handles(pynvml, gpus))
        with _left_unread():
            self._monitored = driver_calls.ask("the performance counters", self._with_monitoring)

    def close(self) -> None:
        """Release the library, and what was sampled and not taken."""
        self._free()
        library, self._nvml, self._handles, self._monitored = self._nvml, None, {}, {}
        if library is not None:
            with _left_unread():
                driver_calls.ask("the end of the library", library.nvmlShutdown)

    def now(self) -> Moment | None:
        """The counters now; None where they cannot be read."""
        if not self._handles:
            return None
        with _left_unread():
            samples = driver_calls.ask("a sample of the performance counters", self._sampled)
            self._held.extend(samples.values())
            pcie = driver_calls.ask("the counters of PCIe", self._pcie)
            return Moment(at=time.monotonic(), pcie=pcie, samples=samples)
        return None

    def since(self, first: Moment | None) -> dict[int, Activity]:
        """What each GPU did since `first`, by minor number; empty where that cannot be read."""
        last = self.now() if first is not None else None
        found: dict[int, Activity] = {}
        if first is not None and last is not None:
            with _left_unread():
                found = driver_calls.ask("what the counters counted", functools.partial(self._activities, first, last))
        self._free()
        return found

    def _with_monitoring(self) -> dict[int, Any]:
        """The handles of the GPUs that offer performance monitoring."""
        library = self._nvml
        return {
            minor: handle
            for minor, handle in self._handles.items()
            if library.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
        }

    def _pcie(self) -> dict[int, tuple[int, int]]:
        """Bytes sent and received until now, of every GPU that counts them."""
        library = self._nvml
        fields = [library.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, library.NVML_FI_DEV_PCIE_COUNT_RX_BYTES]
        found = {}
        for minor, handle in self._handles.items():
            sent, received = library.nvmlDeviceGetFieldValues(handle, fields)
            if sent.nvmlReturn == received.nvmlReturn == library.NVML_SUCCESS:
                found[minor] = (int(sent.value.uiVal), int(received.value.uiVal))
        return found

    def _sampled(self) -> dict[int, Any]:
        """A sample of every GPU that offers them; where one cannot be taken, none is kept."""
        samples: dict[int, Any] = {}
        try:
            for minor, handle in self._monitored.items():
                samples[minor] = self._nvml.nvmlGpmSampleAlloc()
                self._nvml.nvmlGpmSampleGet(handle, samples[minor])
        except Exception:
            self._release(list(samples.values()))
            raise
        return samples

    def _activities(self, first: Moment, last: Moment) -> dict[int, Activity]:
        is_long = last.at - first.at >= LEAST_S
        found = {}
        for minor in first.pcie.keys() & last.pcie.keys():
            sent, received = map(counted, first.pcie[minor], last.pcie[minor])
            samples = [moment.samples.get(minor) for moment in (first, last)]
            share = self._share(*samples) if is_long and None not in samples else None
            found[minor] = Activity(pcie_sent_bytes=sent, pcie_received_bytes=received, dram_percent=share)
        return found

    def _share(self, first: Any, last: Any) -> int | None:
        """The share of the memory's bandwidth between two samples, in percent."""
        library = self._nvml
        asked = library.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = library.NVML_GPM_METRICS_GET_VERSION, 1
        asked.sample1, asked.sample2 = first, last
        asked.metrics[0].metricId = library.NVML_GPM_METRIC_DRAM_BW_UTIL
        library.nvmlGpmMetricsGet(asked)
        [answer] = asked.metrics[:1]
        return share_in_percent(answer.value) if answer.nvmlReturn == library.NVML_SUCCESS else None

    def _free(self) -> None:
        """Give back every sample that was taken."""
        samples, self._held = self._held, []
        if samples:
            with _left_unread():
                driver_calls.ask("the end of samples", lambda: self._release(samples))

    def _release(self, samples: Sequence[Any]) -> None:
        for sample in samples:
            with _left_unread():
                self._nvml.nvmlGpmSampleFree(sample)


def _handles(pynvml: Any, gpus: Sequence[int]) -> dict[int, Any]:
    """The handles of the GPUs by minor number."""
    return {minor: handle for minor, handle in nvml.handles(pynvml) if minor in gpus}


@contextlib.contextmanager
def _left_unread() -> Iterator[None]:
    """Any error inside is logged for the operator, and ends there: drivers and their library differ in what they do."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - what only serves alarms must not end an evaluation
        logger.info("GPU counters could not be read: %r", error)
