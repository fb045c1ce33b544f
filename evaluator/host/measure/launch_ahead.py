"""How long ranks may queue work before the gates of a call open."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from evaluator.host.clock.call_clock import CallTime

LONGEST_S = 0.05
"""The longest wait for ranks to queue everything. On 2 H200, 900 launches took 6 ms to queue."""

WAITING_S = 0.001
"""The time to launch ahead of programs that wait for the device before they have queued everything."""

_DECISIVE_CALLS = 3
"""The first call compiles, loads modules and connects, so it waits for the device. The third call decides."""


@dataclass
class LaunchAhead:
    """Whether one program at one size queues all its work without waiting for the device.

    The calls before the first timed one show it; then it is fixed. A program that waits for the device can queue
    no further while the gate is closed: its gate opens after `WAITING_S` in every call.
    """

    waits_for_queue: bool = False
    calls: int = 0
    is_fixed: bool = False

    @property
    def seconds(self) -> float:
        """The time to launch ahead of the next call."""
        return LONGEST_S if self.waits_for_queue else WAITING_S

    def note(self, taken: CallTime) -> None:
        """Learn from a call, unless the answer is fixed."""
        if self.is_fixed:
            return
        self.calls += 1
        # The second and the third call wait until all is queued; then it is known.
        self.waits_for_queue = self.calls < _DECISIVE_CALLS or taken.has_queued
        self.is_fixed = self.calls >= _DECISIVE_CALLS


_MOST_LAYOUTS = 4
"""With more layouts than this, lengths differ in nearly every call, and a program is timed while it meets new ones."""


@dataclass
class MetLayouts:
    """The layouts of arguments that a worker group has met at one size: shapes, dtypes and flags of all ranks.

    Where one is new, a program may make what it keeps for later calls: buffers that ranks share, signals, streams.
    Behind a closed gate what it only queues, such as clearing a new signal, would come after what peers already write.
    """

    _met: set[Hashable] = field(default_factory=set)

    def is_new(self, layout: Hashable) -> bool:
        """Note `layout`; whether it is new, and one of the first.

        Ranks see the answer. So it follows from layouts alone, which they see as well, and not from what a call is for.
        A program that knew which calls are not timed could be right in these alone.
        """
        if layout in self._met or len(self._met) >= _MOST_LAYOUTS:
            return False
        self._met.add(layout)
        return True
