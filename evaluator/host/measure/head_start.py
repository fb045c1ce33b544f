"""How long ranks may queue work before the gates of a call open."""

from dataclasses import dataclass

from evaluator.host.clock.call_clock import CallTime

LONGEST_S = 0.05
"""So long the host waits at most for everything to be queued: on 2 H200 900 launches took 6 ms to queue."""

WAITING_S = 0.001
"""The head start of programs that wait for the device before all is queued, as a training step would give them."""

_DECISIVE_CALLS = 3
"""The first call compiles, loads modules and opens connections, and waits for the device then; the third tells."""


@dataclass
class HeadStart:
    """Whether one program at one size queues all its work without waiting for the device.

    That shows in the calls before the first timed one, and is fixed from then on. What waits for the device can queue
    no further while the gate is closed: its gate opens after `WAITING_S` in every call.
    """

    waits_for_queue: bool = False
    calls: int = 0
    is_fixed: bool = False

    @property
    def seconds(self) -> float:
        """The head start of the next call."""
        return LONGEST_S if self.waits_for_queue else WAITING_S

    def note(self, taken: CallTime) -> None:
        """Learn from a call, unless it is fixed already."""
        if self.is_fixed:
            return
        self.calls += 1
        # The second call and the third are asked to queue everything; from then on it is known.
        self.waits_for_queue = self.calls < _DECISIVE_CALLS or taken.has_queued
        self.is_fixed = self.calls >= _DECISIVE_CALLS
