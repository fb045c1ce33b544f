"""The driver's fault events (Xid) on a slot's GPUs while an evaluation runs; no submission can write or hide these.

The driver's management library keeps events for whoever asked for them beforehand. They are read without
waiting, on demand, so no process of ours runs for them during a measurement.
"""

import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from evaluator.contract import DriverFault
from evaluator.host.machine import driver_calls
from evaluator.host.machine.nvml import handles

_MOST_EVENTS = 4096
"""The most events read at once: a program with endless faults must not stop the judge."""


class Watch:
    """The events that were read since `watching` began."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], DriverFault] = {}
        self._nvml: Any = None
        self._events: Any = None

    @property
    def faults(self) -> tuple[DriverFault, ...] | None:
        """The faults until the last read; None where this node cannot know."""
        return self.seen if self._nvml is not None else None

    @property
    def seen(self) -> tuple[DriverFault, ...]:
        """Every kind of fault on every GPU that was noted, in the order of first occurrence."""
        return tuple(self._seen.values())

    def look(self) -> None:
        """Read what the driver has reported by now."""
        if self._events is not None:
            self._take()

    def note(self, gpu: int, xid: int, *, noticed_at: str) -> None:
        """Count one event; the time of the first of its kind is kept."""
        first = self._seen.get((gpu, xid))
        self._seen[gpu, xid] = DriverFault(
            gpu=gpu,
            xid=xid,
            count=first.count + 1 if first is not None else 1,
            noticed_at=first.noticed_at if first is not None else noticed_at,
        )

    def open(self, gpus: Sequence[int]) -> None:
        """Watch the events of the GPUs with these minor numbers; one that cannot be watched leaves it unknown."""
        if not gpus:
            return
        try:
            import pynvml  # noqa: PLC0415 - only GPU nodes have it
        except ImportError:
            return
        with contextlib.suppress(driver_calls.DriverSilent):
            self._events = driver_calls.ask("a watch over faults", lambda: _registered(pynvml, gpus))
        if self._events is not None:
            self._nvml = pynvml

    def close(self) -> None:
        """Read once more and end the watch; `faults` can still be read."""
        self.look()
        events, self._events = self._events, None
        if events is not None:
            with contextlib.suppress(driver_calls.DriverSilent):
                driver_calls.ask("the end of a watch over faults", lambda: _let_go(self._nvml, events))

    def _take(self) -> None:
        nvml, events = self._nvml, self._events
        try:
            found = driver_calls.ask("faults", lambda: _taken(nvml, events))
        except driver_calls.DriverSilent:
            # What it has reported stays. Whether there was more cannot be known.
            self._nvml = self._events = None
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        for gpu, fault in found:
            self.note(gpu, fault, noticed_at=now)


def _registered(nvml: Any, gpus: Sequence[int]) -> Any:
    """A set of events for the faults of these GPUs; None where one of them cannot be watched.

    Events of some GPUs would read as "no fault on the others", so none are reported then.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    events = None
    try:
        events = nvml.nvmlEventSetCreate()
        for minor, handle in handles(nvml):
            if minor in gpus:
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
    except nvml.NVMLError:
        _let_go(nvml, events)
        return None
    return events


def _taken(nvml: Any, events: Any) -> list[tuple[int, int]]:
    """The events by now, as GPU and fault. Where the device is gone, the canary shows the rest."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(nvml.NVMLError):
        while len(found) < _MOST_EVENTS:
            event = nvml.nvmlEventSetWait_v2(events, 0)
            found.append((int(nvml.nvmlDeviceGetMinorNumber(event.device)), int(event.eventData)))
    return found


def _let_go(nvml: Any, events: Any) -> None:
    with contextlib.suppress(nvml.NVMLError):
        if events is not None:
            nvml.nvmlEventSetFree(events)
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlShutdown()


@contextlib.contextmanager
def watching(gpus: Sequence[int]) -> Iterator[Watch]:
    """Listen for driver faults on the GPUs with these minor numbers; earlier faults do not count."""
    watch = Watch()
    watch.open(gpus)
    try:
        yield watch
    finally:
        watch.close()
