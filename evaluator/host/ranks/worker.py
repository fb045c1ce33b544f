"""One worker, the host's side of a sandbox rank: its channel, its status page, its process, its location."""

import mmap
import os
import signal
from dataclasses import dataclass, field

from evaluator.arena import protocol
from evaluator.arena.protocol import Failure, Phase
from evaluator.contract import Collective
from evaluator.host.hangs import flight_recorder, stacks
from evaluator.host.hangs.incidents import Standing
from evaluator.host.process import procfs
from evaluator.host.process.logs import clean
from evaluator.host.ranks.channel import Channel

WATCH_S = 0.5
"""How long a silent rank is observed: its stack has to arrive, and its use of the processor to show."""

_BUSY_TICKS = 0.1 * WATCH_S * os.sysconf("SC_CLK_TCK")


@dataclass
class Worker:
    """The host's side of one rank.

    The status page is read and written through a mapping: the rank shares its descriptor, and flags that the rank sets
    (such as append) apply to ours too. `status` is its wait status once it has ended, `answered_at_ns` the time of
    its last answer on the monotonic clock.
    """

    number: int
    channel: Channel
    status_page: int
    pid: int | None = None
    status: int | None = None
    is_closed: bool = False
    calls_done: int = 0
    answered_at_ns: int = 0
    failure: Failure | None = None
    _page: mmap.mmap = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._page = mmap.mmap(self.status_page, protocol.STATUS_BYTES)

    def close(self) -> None:
        """Close the host's end of the channel, and unmap the status page."""
        self.channel.close()
        self._page.close()

    @property
    def text(self) -> str:
        """What the rank wrote about its failure: untrusted, without control characters."""
        return self._read(protocol.STATUS_TEXT_START, protocol.STATUS_FLIGHT_START)

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """The collectives that it noted on our signal; none before, nor where it wrote something else."""
        return flight_recorder.read(self._read(protocol.STATUS_FLIGHT_START, protocol.STATUS_STACK_START))

    @property
    def has_noted_collectives(self) -> bool:
        """Whether it has noted collectives since the last signal."""
        return self._page[protocol.STATUS_FLIGHT_START] != 0

    def forget_collectives(self) -> None:
        """Make room for a new answer."""
        self._page[protocol.STATUS_FLIGHT_START] = 0

    @property
    def stack(self) -> str:
        """The stacks that it dumped on our signal; untrusted."""
        return self._read(protocol.STATUS_STACK_START, protocol.STATUS_BYTES)

    def forget_stack(self) -> None:
        """Make room for a new dump; the rank's descriptor shares its file offset with ours."""
        self._page[protocol.STATUS_STACK_START :] = bytes(protocol.STATUS_BYTES - protocol.STATUS_STACK_START)
        os.lseek(self.status_page, protocol.STATUS_STACK_START, os.SEEK_SET)

    @property
    def may_have_been_killed(self) -> bool:
        """Whether it was ended by SIGKILL, or has closed its channel and nobody knows how it ended.

        The kernel closes the channel first. Freeing gigabytes of a process takes it longer than the host waits.
        """
        if self.status is None:
            return self.is_closed
        return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL

    @property
    def exit_words(self) -> str:
        """How its process ended, or that it runs."""
        if self.status is None:
            return "closed its channel" if self.is_closed else "running"
        if not os.WIFSIGNALED(self.status):
            return f"exit {os.waitstatus_to_exitcode(self.status)}"
        number = os.WTERMSIG(self.status)
        try:
            return f"signal {signal.Signals(number).name}"
        except ValueError:
            return f"signal {number}"

    @property
    def ticks(self) -> int:
        """Processor time that it has used, in clock ticks."""
        return procfs.cpu_ticks(self.pid or 0)

    def location(self, *, is_answered: bool, source: str, ticks_before: int | None) -> tuple[Standing, str]:
        """Its standing, and its location in words; `ticks_before` is its processor time when the watch began."""
        phase, call = self._phase()
        where_in = f"in call {call}" if call else "before the first call"
        if self.status is not None or self.is_closed:
            return Standing.ENDED, f"ended ({self.exit_words}) {where_in}"
        if self.failure is not None:
            return Standing.FAILED, f"failed {where_in}"
        if is_answered or not self.channel.expectation.is_open:
            return Standing.FINISHED, f"waits at the end of call {call}" if call else "waits for its first call"
        return self._silent_location(phase, call, where_in, source=source, ticks_before=ticks_before)

    def _silent_location(
        self, phase: Phase, call: int, where_in: str, *, source: str, ticks_before: int | None
    ) -> tuple[Standing, str]:
        """As `location`, for a rank that has not answered: by its stack, its phase and its processor time."""
        frames = stacks.main_thread(self.stack)
        own, waiting = stacks.own_frame(frames, source=source), stacks.waits_in(frames, source=source)
        is_busy = ticks_before is not None and self.ticks - ticks_before > _BUSY_TICKS
        if own is not None and waiting is not None:
            where = f"waits in {waiting} called at {stacks.words(own)}"
            may_act = stacks.has_threads_that_may_act(self.stack)
            if may_act and (is_busy or procfs.is_runnable(self.pid or 0, beside_first=True)):
                return Standing.BESIDE_THREADS, f"{where}, beside threads that may still act"
            return Standing.IN_COLLECTIVE, where
        if phase is Phase.SYNCHRONIZING:
            return Standing.ON_DEVICE, f"waits for work that call {call} left on its GPU"
        where = f"at {stacks.words(own)}" if own is not None else f"({phase.name.lower().replace('_', ' ')})"
        if is_busy or procfs.is_runnable(self.pid or 0):
            return Standing.WORKING, f"runs {where} {where_in}"
        # Such as a compiler, where an extension was not built ahead: the build runs as rank 0 alone.
        has_children = self.pid is not None and len(procfs.descendants(self.pid)) > 1
        beside = ", while a process that it started runs" if has_children else ""
        return Standing.SLEEPING, f"sleeps {where} {where_in}{beside}"

    def _phase(self) -> tuple[Phase, int]:
        number, call, _stamp = protocol.PHASE_LAYOUT.unpack_from(self._page)
        try:
            return Phase(number), call
        except ValueError:
            return Phase.STARTING, 0

    def _read(self, start: int, end: int) -> str:
        raw = self._page[start:end]
        return clean(raw.partition(b"\0")[0].decode("utf-8", "replace"))
