"""The driver's fault events (Xid) on a slot's GPUs while an evaluation runs; no submission can write or hide these.

The driver's management library keeps events for whoever asked for them beforehand. They are read without
waiting, on demand, so no process of ours runs for them during a measurement.
"""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Self

from evaluator.contract import DriverFault
from evaluator.host.machine.nvml import Library, Unavailable

_MOST_EVENTS = 4096
"""The most events read at once: a program with endless faults must not stop the judge."""


class Watch:
    """The events of the GPUs with these minor numbers while it is entered; earlier faults do not count."""

    def __init__(self, gpus: Sequence[int] = ()) -> None:
        self._gpus = gpus
        self._seen: dict[tuple[int, int], DriverFault] = {}
        self._library: Library | None = None
        self._events: Any = None
        self._knows = False

    @property
    def faults(self) -> tuple[DriverFault, ...] | None:
        """The faults until the last read; None where this node cannot know."""
        return self.seen if self._knows else None

    @property
    def seen(self) -> tuple[DriverFault, ...]:
        """Every kind of fault on every GPU that was noted, in the order of first occurrence."""
        return tuple(self._seen.values())

    def note(self, gpu: int, xid: int, *, noticed_at: str) -> None:
        """Count one event; the time of the first of its kind is kept."""
        first = self._seen.get((gpu, xid))
        self._seen[gpu, xid] = DriverFault(
            gpu=gpu,
            xid=xid,
            count=first.count + 1 if first is not None else 1,
            noticed_at=first.noticed_at if first is not None else noticed_at,
        )

    def __enter__(self) -> Self:
        """Begin to watch; a GPU that cannot be watched leaves it unknown."""
        with contextlib.suppress(Unavailable):
            library = self._library = Library(self._gpus)
            self._events = library.ask("a watch over faults", library.nvml.nvmlEventSetCreate)
            # Events of some GPUs would read as "no fault on the others".
            library.ask("a watch over faults", lambda: _register(library, self._events))
            self._knows = True
        return self

    def look(self) -> None:
        """Read what the driver has reported by now."""
        if self._library is None or not self._knows:
            return
        nvml, events = self._library.nvml, self._events
        try:
            found = self._library.ask("faults", lambda: _taken(nvml, events))
        except Unavailable:
            # What it has reported stays. Whether there was more cannot be known.
            self._knows = False
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        for gpu, fault in found:
            self.note(gpu, fault, noticed_at=now)

    def __exit__(self, *_: object) -> None:
        """Read once more and end the watch; `faults` can still be read."""
        self.look()
        library, events, self._library, self._events = self._library, self._events, None, None
        if library is not None:
            with contextlib.suppress(Unavailable):
                if events is not None:
                    library.ask("the end of a watch over faults", lambda: library.nvml.nvmlEventSetFree(events))
            library.close()


def _register(library: Library, events: Any) -> None:
    for handle in library.handles.values():
        library.nvml.nvmlDeviceRegisterEvents(handle, library.nvml.nvmlEventTypeXidCriticalError, events)


def _taken(nvml: Any, events: Any) -> list[tuple[int, int]]:
    """The events by now, as GPU and fault. Where the device is gone, the canary shows the rest."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(nvml.NVMLError):
        while len(found) < _MOST_EVENTS:
            event = nvml.nvmlEventSetWait_v2(events, 0)
            found.append((int(nvml.nvmlDeviceGetMinorNumber(event.device)), int(event.eventData)))
    return found
