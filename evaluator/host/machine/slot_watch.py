"""What runs on a slot's GPUs while only the reference should: traffic, clocks, memory and processes, by the driver."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Self

import msgspec

from evaluator.contract import GpuReading
from evaluator.host.machine import nvml
from evaluator.host.machine.nvlink import Carried, Links, LinksUnavailable


class SlotWatch:
    """Reads the GPUs of a slot around calls of the reference. The driver's library stays open; a context manager.

    Without GPUs, library or counters it reads what there is, or nothing: what it reads is for alarms.
    """

    def __init__(self, gpus: Sequence[int]) -> None:
        """Watch the GPUs with these minor numbers."""
        self._gpus = gpus
        self._links: Links | None = None
        with contextlib.suppress(LinksUnavailable):
            self._links = Links(gpus)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the library."""
        links, self._links = self._links, None
        if links is not None:
            links.close()

    @contextlib.contextmanager
    def around(self, moment: str, *, calls: int, into: list[GpuReading]) -> Iterator[None]:
        """Read the GPUs after `calls` calls that the caller makes inside, with the traffic of each call on the links.

        The readings are added to `into`.
        """
        before = self._carried()
        yield
        after = self._carried()
        into.extend(_with_traffic(reading, before, after, calls=calls) for reading in self.read(moment))

    def read(self, moment: str) -> tuple[GpuReading, ...]:
        """The GPUs now."""
        return nvml.each(self._gpus, functools.partial(_reading, moment=moment))

    def _carried(self) -> dict[int, Carried]:
        """What every GPU's links have carried until now, by minor number; empty where that is not offered."""
        if self._links is None:
            return {}
        try:
            return dict(zip(self._gpus, self._links.read(), strict=True))
        except LinksUnavailable:
            return {}


def _with_traffic(
    reading: GpuReading, before: dict[int, Carried], after: dict[int, Carried], *, calls: int
) -> GpuReading:
    first, last = before.get(reading.gpu), after.get(reading.gpu)
    if first is None or last is None or not calls:
        return reading
    return msgspec.structs.replace(
        reading,
        sent_bytes=(last.sent - first.sent) // calls,
        received_bytes=(last.received - first.received) // calls,
    )


def _reading(pynvml: Any, handle: Any, minor: int, *, moment: str) -> GpuReading:
    """Clocks, power and temperature, and who uses the GPU."""
    state = nvml.state(pynvml, handle, minor)
    return msgspec.structs.replace(
        nvml.reading(pynvml, handle, minor, moment=moment),
        used_bytes=state.used_bytes,
        processes=len(state.processes),
        memory_percent=state.memory_percent,
    )
