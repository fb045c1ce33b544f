"""Is a slot as clean after an evaluation as before it? What is not clean takes no further work."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from evaluator.contract import DriverFault
from evaluator.host.machine import nvml, xid
from evaluator.host.machine.nvml import GpuState
from evaluator.host.machine.xid import Watch
from evaluator.host.process import procfs
from evaluator.judging.driver_faults import against_the_slot, is_grave

_UNOWNED_GROWTH_BYTES = 512 * 1024**2
"""GPU memory that belongs to no process may differ by this much from what it was at first."""


class Health:
    """Looks for what a submission may have left on a slot.

    Args:
        user: the host user of the slot's sandboxes; None where they have none of their own.
        gpus: the slot's GPUs.
        work_dir: the judge's private folder.
        ours: lists the processes of the judge that live between evaluations.
        kept: names the folders in `work_dir` of sandboxes that have seen no submission yet.
        seconds: how long something may take to go away.
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
    ) -> None:
        self._user = user
        self._gpus = gpus
        self._work_dir = work_dir
        self._ours = ours
        self._kept = kept
        self._seconds = seconds
        self._unowned: dict[int, int] = {}
        self._watch = Watch()
        self._grave: dict[tuple[int, int], DriverFault] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watch]:
        """Listen for faults that the driver reports on the slot's GPUs, from an evaluation's start to its end."""
        try:
            with xid.watching(self._gpus) as watch:
                self._watch = watch
                yield watch
        finally:
            self._look_at_driver()

    @property
    def driver_faults(self) -> tuple[DriverFault, ...] | None:
        """What the driver has reported by now since `watching` began; None where this node cannot tell."""
        self._look_at_driver()
        return self._watch.faults

    @property
    def is_driver_ill(self) -> bool:
        """Whether the driver has reported a grave fault of one of the slot's GPUs; that stays until a restart."""
        self._look_at_driver()
        return bool(self._grave)

    def leftovers(self) -> tuple[str, ...]:
        """What is still there though no submission runs, in words; asked again until it is gone or the time is up.

        A grave fault of a GPU stays until the node is restarted.
        """
        self._look_at_driver()
        if self._grave:
            return against_the_slot(self._grave.values())
        deadline = time.monotonic() + self._seconds
        while True:
            found = tuple(self._look())
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def _look_at_driver(self) -> None:
        self._watch.look()
        self._grave |= {(fault.gpu, fault.xid): fault for fault in self._watch.seen if is_grave(fault.xid)}

    def _look(self) -> Iterator[str]:
        # What started after the list was made is seen as ours when it is made again.
        ours = set(self._ours())
        if self._user is not None and (left := [pid for pid in procfs.owned_by(self._user) if pid not in ours]):
            yield f"processes {left} of the sandbox's user {self._user} are still there"
        if folders := sorted({path.name for path in self._work_dir.glob("group-*")} - self._kept()):
            yield f"the folders {folders} of ended sandboxes are still there"
        for state in nvml.read(self._gpus):
            before = self._unowned.setdefault(state.index, state.unowned_bytes)
            yield from on_gpu(state, ours=ours, unowned_before=before)


def on_gpu(state: GpuState, *, ours: set[int], unowned_before: int) -> Iterator[str]:
    """What speaks against a GPU on which only the processes `ours` should be, in words.

    Where the driver does not name ours, it tells the numbers of another namespace, or none, as in a container: then
    its list says nothing, nor does the memory that belongs to nobody on it.
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
