"""Why a rank's GPU is idle in a recorded call: what it works on next was started late, or waits for a signal."""

from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

from evaluator.contract import RankTimeline, SpanKind
from evaluator.judging.call_parts import Interval, clipped, host_waits, united

_START_NS = 10_000
"""What lies between a launch and its work, or between two works in a queue, without anybody waiting."""


class Idle(StrEnum):
    """Why a GPU is idle.

    EDGE
        The rank has not begun yet, or has ended.
    HOST
        The host waits for the device before it starts the next work.
    LAUNCH
        The host starts the next work later for other reasons, or the device takes its time to begin it.
    SIGNAL
        The next work is queued, and no stream of the rank works: it waits for a signal from outside.
    """

    EDGE = "edge"
    HOST = "host"
    LAUNCH = "launch"
    SIGNAL = "signal"


def idle_by_cause(rank: RankTimeline, window: Interval) -> dict[Idle, int]:
    """How many nanoseconds of `window` the GPU of `rank` is idle, by cause.

    An idle time ends with some work. Until the launch of that work has returned, the host is the cause, and afterwards
    a signal. Where the launch is not known, the host is.
    """
    work = sorted((span for span in rank.spans if span.kind.is_on_device), key=lambda span: span.start_ns)
    busy = united(clipped(((span.start_ns, span.end_ns) for span in work), window))
    found = dict.fromkeys(Idle, 0)
    if not busy:
        return found | {Idle.EDGE: window[1] - window[0]}
    found[Idle.EDGE] = busy[0][0] - window[0] + window[1] - busy[-1][1]
    waits = united((wait.start_ns, wait.end_ns) for wait in host_waits(rank, window))
    launches = {span.flow: span for span in rank.spans if span.flow and span.kind is SpanKind.LAUNCH}
    starts = [span.start_ns for span in work]
    for (_, begin_ns), (end_ns, _) in pairwise(busy):
        launch = launches.get(work[bisect_left(starts, end_ns)].flow)
        queued_ns = min(end_ns, max(begin_ns, launch.end_ns)) if launch is not None else end_ns
        if end_ns - queued_ns <= _START_NS:
            queued_ns = end_ns
        found[Idle.SIGNAL] += end_ns - queued_ns
        found[_of_host(waits, begin_ns, queued_ns)] += queued_ns - begin_ns
    return found


def _of_host(waits: Sequence[Interval], begin_ns: int, end_ns: int) -> Idle:
    """Whether the host waited for the device between the end of one work and the start of the next."""
    # A stranger decides how many waits there are. None overlaps another, so the last one that began ends last.
    begun = bisect_left(waits, (end_ns, 0))
    return Idle.HOST if begun and waits[begun - 1][1] > begin_ns - _START_NS else Idle.LAUNCH
