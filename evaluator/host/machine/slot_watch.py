"""What runs on a slot's GPUs while only the reference should: traffic, clocks, memory and processes, by the driver.

Only the links' traffic in counted calls is evidence. The rest serves alarms alone: whatever goes wrong there means that
nothing was read, and never ends an evaluation.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import msgspec

from evaluator.contract import GpuReading, LinkTraffic
from evaluator.host.machine import nvml
from evaluator.host.machine.nvml import Library, Unavailable
from evaluator.judging import link_traffic

logger = logging.getLogger(__name__)

LEAST_S = 0.3
"""The shortest time over which a share of the memory's bandwidth is read.

NVML's performance monitoring (GPM, on Hopper and later) renews its samples every 100 ms. Two samples within that time
held no number, or the rates of a window that began before the first (H200, driver 580.159.04, 23 November 2026). So at
least two thirds of what is read here lies between the two moments."""

_ALL_LINKS, _UNIT = 0xFFFFFFFF, 1024
"""The counters of the links count whole KiB of payload."""

_WRAP = 2**32
"""The counters of PCIe have 32 bits, which 57 GB a second fill in 75 ms."""

_MOST_PERCENT = 110.0
"""More than this is no share of a bandwidth."""

_COUNTED_CALLS = 2

_Answer = TypeVar("_Answer")
_Traffic = dict[int, tuple[int, int]]
"""Bytes sent and received by minor number."""


def counted(first: int, last: int) -> int:
    """What a counter of 32 bits counted, if it began again once at the most."""
    return (last - first) % _WRAP


def share_in_percent(value: float) -> int | None:
    """A share of the bandwidth as the driver says it, rounded; None where it is none."""
    return round(value) if 0 <= value <= _MOST_PERCENT else None


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """The counters of all GPUs at a moment, by minor number; `samples` are those of performance monitoring."""

    at: float
    links: _Traffic
    pcie: _Traffic
    samples: dict[int, Any]


class SlotWatch:
    """Reads the GPUs of a slot around calls. The driver's library stays open; a context manager.

    Without GPUs, library or counters it reads what there is, or nothing.
    """

    def __init__(self, gpus: Sequence[int]) -> None:
        """Watch the GPUs with these minor numbers."""
        self._gpus = gpus
        self._library: Library | None = None
        self._why = "CPU ranks have no NVLink"
        self._held: list[Any] = []
        if gpus:
            try:
                self._library = Library(gpus)
            except Unavailable as reason:
                self._why = str(reason)
        self._monitored: tuple[int, ...] = self._read("the performance counters", self._with_monitoring, ())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the library."""
        self._free()
        library, self._library, self._why = self._library, None, "its watch has ended"
        if library is not None:
            library.close()

    @contextlib.contextmanager
    def around(self, moment: str, *, calls: int, into: list[GpuReading]) -> Iterator[None]:
        """Read the GPUs after `calls` calls that the caller makes inside, with the traffic of each call.

        The readings are added to `into`.
        """
        first = self._now()
        yield
        last = self._now()
        traffic, shares = self._between(first, last, calls=calls), self._shares(first, last)
        self._free()
        for each in self.read(moment):
            share = shares.get(each.gpu)
            into.append(msgspec.structs.replace(each, dram_percent=share, **traffic.get(each.gpu, {})))

    def read(self, moment: str) -> tuple[GpuReading, ...]:
        """The GPUs now."""
        return self._read(
            "state of the GPUs",
            lambda: tuple(nvml.reading(self._open, minor, moment=moment) for minor in self._open.handles),
            (),
        )

    def count_links(self, *, least_bytes: float, call: Callable[[AbstractContextManager[None]], object]) -> LinkTraffic:
        """The traffic on the links in a few calls.

        Args:
            least_bytes: the cost model's minimum of the busiest rank per call, one way.
            call: makes one call, and enters the given context from GO to the last answer.
        """
        moved = [[0, 0] for _ in self._gpus]
        try:
            self.links()
            for _ in range(_COUNTED_CALLS):
                call(self._adding_to(moved))
        except Unavailable as reason:
            return LinkTraffic(least_bytes=least_bytes, note=f"not offered: {reason}")
        sent, received = zip(*moved, strict=True)
        return link_traffic.weigh(calls=_COUNTED_CALLS, sent=sent, received=received, least_bytes=least_bytes)

    def links(self) -> _Traffic:
        """What every GPU has sent and received over its links since the driver started; raises Unavailable."""
        if self._library is None:
            raise Unavailable(self._why)
        if missing := [minor for minor in self._gpus if minor not in self._library.handles]:
            raise Unavailable(f"the driver does not know GPU {missing[0]}")
        return self._library.ask("bytes on the links", self._link_bytes)

    @contextlib.contextmanager
    def _adding_to(self, moved: list[list[int]]) -> Iterator[None]:
        before = self.links()
        yield
        after = self.links()
        for sums, minor in zip(moved, self._gpus, strict=True):
            for way in range(2):
                sums[way] += after[minor][way] - before[minor][way]

    def _read(self, what: str, call: Callable[[], _Answer], without: _Answer) -> _Answer:
        """What `call` reads; `without` where there is no library, or something goes wrong, which the operator sees."""
        if self._library is None:
            return without
        try:
            return self._library.ask(what, call)
        except Exception as error:  # noqa: BLE001 - drivers and their library differ in what they do
            logger.info("GPU counters could not be read: %r", error)
            return without

    @property
    def _open(self) -> Library:
        assert self._library is not None
        return self._library

    @property
    def _nvml(self) -> Any:
        return self._open.nvml

    def _with_monitoring(self) -> tuple[int, ...]:
        """The GPUs that offer performance monitoring."""
        handles = self._open.handles.items()
        return tuple(
            minor for minor, handle in handles if self._nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
        )

    def _now(self) -> _Moment:
        links: _Traffic = {}
        with contextlib.suppress(Unavailable):
            links = self.links()
        samples: dict[int, Any] = self._read("a sample of the performance counters", self._sampled, {})
        pcie: _Traffic = self._read("the counters of PCIe", self._pcie_bytes, {})
        return _Moment(at=time.monotonic(), links=links, pcie=pcie, samples=samples)

    def _free(self) -> None:
        held, self._held = self._held, []
        self._read("the end of samples", lambda: [self._nvml.nvmlGpmSampleFree(sample) for sample in held], [])

    def _fields(self, minor: int, *fields: Any) -> list[Any]:
        """Counters of a GPU; none where the driver does not read one of them."""
        values = self._nvml.nvmlDeviceGetFieldValues(self._open.handles[minor], list(fields))
        return [value.value for value in values if value.nvmlReturn == self._nvml.NVML_SUCCESS]

    def _link_bytes(self) -> _Traffic:
        library = self._nvml
        found: _Traffic = {}
        ways = (library.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, library.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX)
        for minor in self._gpus:
            values = self._fields(minor, *((way, _ALL_LINKS) for way in ways))
            if len(values) < len(ways):
                raise Unavailable(f"the driver gives no link counter of GPU {minor}")
            found[minor] = (values[0].ullVal * _UNIT, values[1].ullVal * _UNIT)
        return found

    def _pcie_bytes(self) -> _Traffic:
        """Bytes until now, of every GPU that counts them, protocol included."""
        ways = (self._nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, self._nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES)
        read = {minor: self._fields(minor, *ways) for minor in self._open.handles}
        return {minor: (int(way[0].uiVal), int(way[1].uiVal)) for minor, way in read.items() if len(way) == len(ways)}

    def _sampled(self) -> dict[int, Any]:
        """A sample of every GPU that offers them, until the end of `around`."""
        samples: dict[int, Any] = {}
        for minor in self._monitored:
            samples[minor] = self._nvml.nvmlGpmSampleAlloc()
            self._held.append(samples[minor])
            self._nvml.nvmlGpmSampleGet(self._open.handles[minor], samples[minor])
        return samples

    def _between(self, first: _Moment, last: _Moment, *, calls: int) -> dict[int, dict[str, int]]:
        """What each GPU sent and received between two moments, per call, as fields of a reading."""
        found: dict[int, dict[str, int]] = {minor: {} for minor in self._gpus}
        for minor in first.links.keys() & last.links.keys():
            sent, received = (
                after - before for before, after in zip(first.links[minor], last.links[minor], strict=True)
            )
            found[minor] |= {"sent_bytes": sent // calls, "received_bytes": received // calls}
        for minor in first.pcie.keys() & last.pcie.keys():
            sent, received = map(counted, first.pcie[minor], last.pcie[minor])
            found[minor] |= {"pcie_sent_bytes": sent // calls, "pcie_received_bytes": received // calls}
        return found

    def _shares(self, first: _Moment, last: _Moment) -> dict[int, int | None]:
        """The share of its memory's bandwidth that each GPU used; of none where the time was too short."""
        sampled = first.samples.keys() & last.samples.keys() if last.at - first.at >= LEAST_S else ()
        return self._read(
            "what the counters counted",
            lambda: {minor: self._share(first.samples[minor], last.samples[minor]) for minor in sampled},
            {},
        )

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
