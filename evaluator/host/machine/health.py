"""Is a slot as clean after an evaluation as before it, and has the driver reported faults? If not, its work ends."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from evaluator.contract import DriverFault
from evaluator.host.machine import driver_calls, nvml
from evaluator.host.machine.nvml import GpuState, Library, Unavailable
from evaluator.host.process import procfs
from evaluator.judging.driver_faults import against_the_slot, is_grave

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


_UNOWNED_GROWTH_BYTES = 512 * 1024**2
"""How much GPU memory without an owner may grow since the start."""


class Health:
    """Looks for what a submission may have left on a slot.

    Args:
        user: the host user of the slot's sandboxes; None where there is none.
        gpus: the slot's GPUs.
        work_dir: the judge's private folder.
        ours: lists the judge's processes between evaluations.
        kept: names the folders in `work_dir` of sandboxes without a submission so far.
        seconds: how long leftovers may take to disappear.
        shares_gpu: whether other programs may use the GPU meanwhile, such as those of a workstation's owner.

    Attributes:
        knows_usual: whether `note_usual` was called, so that ranks may start while leftovers are looked for.
    """

    def __init__(
        self,
        *,
        user: int | None,
        gpus: tuple[int, ...],
        work_dir: Path,
        ours: Callable[[], list[int]],
        kept: Callable[[], set[str]],
        seconds: float,
        shares_gpu: bool = False,
    ) -> None:
        self._shares_gpu = shares_gpu
        self._user = user
        self._gpus = gpus
        self._work_dir = work_dir
        self._ours = ours
        self._kept = kept
        self._seconds = seconds
        self._unowned: dict[int, int] = {}
        self.knows_usual = False
        self._watch = Watch()
        self._grave: dict[tuple[int, int], DriverFault] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watch]:
        """Listen for faults that the driver reports on the slot's GPUs, from an evaluation's start to its end."""
        try:
            with Watch(self._gpus) as watch:
                self._watch = watch
                yield watch
        finally:
            self._look_at_driver()

    @property
    def driver_faults(self) -> tuple[DriverFault, ...] | None:
        """The faults that the driver has reported since `watching` began; None where this node cannot know."""
        self._look_at_driver()
        return self._watch.faults

    @property
    def is_driver_ill(self) -> bool:
        """Whether the driver has reported a grave fault of one of the slot's GPUs; stays true until a restart."""
        self._look_at_driver()
        return bool(self._grave)

    def leftovers(self, *, within: Callable[[float], float] = lambda seconds: seconds) -> tuple[str, ...]:
        """Leftovers of a submission, in words; checked until there are none or the time is over.

        A grave fault of a GPU counts until the node is restarted. `within` shortens the time.
        """
        self._look_at_driver()
        if self._grave:
            return against_the_slot(self._grave.values())
        deadline = time.monotonic() + within(self._seconds)
        while True:
            found = tuple(self._look())
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def note_usual(self) -> None:
        """Note once how much GPU memory has no owner, at a moment when no rank starts or ends."""
        states = nvml.read(self._gpus)
        for state in states:
            self._unowned.setdefault(state.index, state.unowned_bytes)
        self.knows_usual = self.knows_usual or len(states) == len(self._gpus)

    def _look_at_driver(self) -> None:
        self._watch.look()
        self._grave |= {(fault.gpu, fault.xid): fault for fault in self._watch.seen if is_grave(fault.xid)}

    def _look(self) -> Iterator[str]:
        # A process of ours that started after the list was made is in the next list.
        ours = set(self._ours())
        if self._user is not None and (left := [pid for pid in procfs.owned_by(self._user) if pid not in ours]):
            yield f"processes {left} of the sandbox's user {self._user} still run"
        if folders := sorted({path.name for path in self._work_dir.glob("group-*")} - self._kept()):
            yield f"the folders {folders} of ended sandboxes still exist"
        states = nvml.read(self._gpus)
        if self._gpus and (silence := driver_calls.silence()):
            yield f"{silence}, so nobody can know what uses GPUs {', '.join(map(str, self._gpus))}"
        for state in () if self._shares_gpu else states:
            before = self._unowned.setdefault(state.index, state.unowned_bytes)
            yield from on_gpu(state, ours=ours, unowned_before=before)


def on_gpu(state: GpuState, *, ours: set[int], unowned_before: int) -> Iterator[str]:
    """Leftovers on a GPU that only the processes `ours` should use, in words.

    Where the driver does not list ours, as in a container, its process numbers are of another namespace or missing.
    Then neither its list nor memory without an owner shows anything.
    """
    named = set(state.processes)
    if ours and not ours & named:
        return
    foreign = named - ours
    if foreign and foreign != named:
        yield f"processes {sorted(foreign)} that are not the judge's use GPU {state.index}"
    if state.unowned_bytes > unowned_before + _UNOWNED_GROWTH_BYTES and not foreign:
        grown = (state.unowned_bytes - unowned_before) / 1e9
        yield f"{grown:.1f} GB of GPU {state.index}'s memory belong to no process and were free before"
