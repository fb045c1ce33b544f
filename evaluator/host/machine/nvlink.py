"""Bytes that GPUs sent and received over NVLink, by the driver's counters, which no submission can write."""

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from evaluator.contract import LinkTraffic
from evaluator.host.machine import driver_calls
from evaluator.judging import link_traffic

_ALL_LINKS = 0xFFFFFFFF
_UNIT = 1024
"""The counters count whole KiB of payload."""

_CALLS = 2

_Answer = TypeVar("_Answer")


class LinksUnavailable(Exception):
    """This node offers no link counters; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Carried:
    """Bytes that one GPU has sent and received over all its links since the driver started, in steps of a KiB."""

    sent: int
    received: int


class Links:
    """The counters of the GPUs with these minor numbers, open for reading; a context manager."""

    def __init__(self, gpus: Sequence[int]) -> None:
        """Find the counters and read them once.

        Raises:
            LinksUnavailable: there are no GPUs, no management library, or no counters behind it.
        """
        if not gpus:
            raise LinksUnavailable("CPU ranks have no NVLink")
        try:
            import pynvml  # noqa: PLC0415 - only GPU nodes have it
        except ImportError as error:
            raise LinksUnavailable("the package nvidia-ml-py is not installed on this node") from error
        self._nvml: Any = pynvml
        self._fields = [
            (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS),
            (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS),
        ]
        self._handles = _asked("counters of the links", lambda: self._open(gpus))

    def read(self) -> tuple[Carried, ...]:
        """The bytes of every GPU until now, in the order of their numbers; raises LinksUnavailable."""
        return _asked("bytes on the links", lambda: tuple(self._read(handle) for handle in self._handles))

    def close(self) -> None:
        """Release the library."""
        with contextlib.suppress(self._nvml.NVMLError, LinksUnavailable):
            _asked("the end of the library", self._nvml.nvmlShutdown)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, gpus: Sequence[int]) -> list[Any]:
        """The handles of the GPUs, whose counters can be read."""
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise LinksUnavailable(f"the driver's management library cannot be used: {error}") from error
        try:
            found = self._find(gpus)
            for handle in found:
                self._read(handle)
        except LinksUnavailable:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
            raise
        return found

    def _find(self, gpus: Sequence[int]) -> list[Any]:
        nvml = self._nvml
        try:
            handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
            by_number = {nvml.nvmlDeviceGetMinorNumber(handle): handle for handle in handles}
        except nvml.NVMLError as error:
            raise LinksUnavailable(f"the driver does not list the GPUs: {error}") from error
        if missing := [number for number in gpus if number not in by_number]:
            raise LinksUnavailable(f"the driver does not know GPU {missing[0]}")
        return [by_number[number] for number in gpus]

    def _read(self, handle: Any) -> Carried:
        nvml = self._nvml
        try:
            sent, received = nvml.nvmlDeviceGetFieldValues(handle, self._fields)
        except nvml.NVMLError as error:
            raise LinksUnavailable(f"the driver does not read the link counters: {error}") from error
        for value in (sent, received):
            if value.nvmlReturn != nvml.NVML_SUCCESS:
                raise LinksUnavailable(f"the driver gives no link counter: {nvml.nvmlErrorString(value.nvmlReturn)}")
        return Carried(sent=sent.value.ullVal * _UNIT, received=received.value.ullVal * _UNIT)


def _asked(what: str, call: Callable[[], _Answer]) -> _Answer:
    """What the driver answers; raises LinksUnavailable where it does not answer in time."""
    try:
        return driver_calls.ask(what, call)
    except driver_calls.DriverSilent as silent:
        raise LinksUnavailable(str(silent)) from silent


class _Around:
    """Adds up the bytes on the links while it is entered."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._before = links.read()
        self.sent = [0] * len(self._before)
        self.received = [0] * len(self._before)

    def __enter__(self) -> None:
        self._before = self._links.read()

    def __exit__(self, *_: object) -> None:
        for number, (before, after) in enumerate(zip(self._before, self._links.read(), strict=True)):
            self.sent[number] += after.sent - before.sent
            self.received[number] += after.received - before.received


def count(
    gpus: Sequence[int], *, least_bytes: float, call: Callable[[AbstractContextManager[None]], object]
) -> LinkTraffic:
    """The traffic on the links of `gpus` in a few calls.

    Args:
        gpus: minor numbers, in the order of the ranks.
        least_bytes: the cost model's minimum of the busiest rank per call, one way.
        call: makes one call, and enters the given context from GO to the last answer.
    """
    try:
        with Links(gpus) as links:
            around = _Around(links)
            for _ in range(_CALLS):
                call(around)
            return link_traffic.weigh(calls=_CALLS, sent=around.sent, received=around.received, least_bytes=least_bytes)
    except LinksUnavailable as reason:
        return LinkTraffic(least_bytes=least_bytes, note=f"not offered: {reason}")
