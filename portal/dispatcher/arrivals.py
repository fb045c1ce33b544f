"""Heartbeats that have arrived and are not recorded yet: the newest of each node, and a thread that records them.

A worker's first process puts them here as it takes them from the broker, instead of into its pool. So neither a report
waits for the heartbeats before it, nor a heartbeat for the reports before it. What waits here is lost with the process,
as any heartbeat may be.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

from django.db import close_old_connections
from django.utils import timezone

from evaluator.contract import NodeStatus
from portal import metrics
from portal.database_away import AwayLines, is_database_away
from portal.dispatcher.heartbeats import record_heartbeats

logger = logging.getLogger(__name__)

MOST = 500
"""So many wait at most: names and keys of a flood are made up, and each would take memory."""
BATCH = 100
"""So many are recorded in one transaction. They are of different nodes, or under different keys."""
REST_S = 0.05
"""Between two batches, so that heartbeats that come together are recorded together."""
PATIENCE_S = 1.0
"""So long a heartbeat waits that says what the last one of its node said: all that it changes is the time."""


class Arrivals:
    """Keeps the newest heartbeat of each node and key until `take` is called; any thread may call both.

    Args:
        clock: seconds of a clock that never goes back.
        patience_s: how long a heartbeat without news may wait for others.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, patience_s: float = PATIENCE_S) -> None:
        self._clock, self._patience_s = clock, patience_s
        self._condition = threading.Condition()
        # By key as well: a heartbeat in another node's name must not replace that node's own.
        self._waiting: dict[tuple[str, str], NodeStatus] = {}
        self._taken: dict[tuple[str, str], NodeStatus] = {}
        self._due_s = math.inf

    def put(self, status: NodeStatus) -> None:
        """Add a heartbeat. It replaces an earlier one of its node; of too many, the oldest goes."""
        origin = (status.node, status.key)
        with self._condition:
            self._waiting.pop(origin, None)
            self._waiting[origin] = status
            if len(self._waiting) > MOST:
                del self._waiting[next(iter(self._waiting))]
                metrics.refused_messages.labels("heartbeat", "too many").inc()
            is_news = self._taken.get(origin) != status
            self._due_s = min(self._due_s, self._clock() + (0.0 if is_news else self._patience_s))
            self._condition.notify()

    def take(self, most: int = BATCH) -> list[NodeStatus]:
        """The oldest of those that wait, once one of them has news or has waited long; they wait no more."""
        with self._condition:
            while (left_s := self._due_s - self._clock()) > 0:
                self._condition.wait(None if math.isinf(left_s) else left_s)
            origins = list(self._waiting)[:most]
            taken = {origin: self._waiting.pop(origin) for origin in origins}
            self._due_s = self._clock() if self._waiting else math.inf
            self._taken |= taken
            while len(self._taken) > MOST:
                del self._taken[next(iter(self._taken))]
        return list(taken.values())


class Recorder:
    """A thread that records what arrives; it starts with the first heartbeat and ends with the process."""

    def __init__(self, arrivals: Arrivals, *, rest: Callable[[], object]) -> None:
        self._arrivals, self._rest = arrivals, rest
        self._lock = threading.Lock()
        self._is_started = False
        self._lines = AwayLines(logger)

    def note(self, status: NodeStatus) -> None:
        """Have a heartbeat recorded soon."""
        with self._lock:
            if not self._is_started:
                threading.Thread(target=self._run, name="heartbeats", daemon=True).start()
                self._is_started = True
        self._arrivals.put(status)

    def _run(self) -> None:
        while True:
            waiting = self._arrivals.take()
            # As around a web request: one that broke is opened again.
            close_old_connections()
            self.record(waiting)
            self._rest()

    def record(self, statuses: Sequence[NodeStatus]) -> None:
        """Record heartbeats together. If one of them cannot be stored, each is tried alone and that one is dropped."""
        try:
            counted = record_heartbeats(statuses, timezone.now())
        except Exception as error:
            if is_database_away(error):
                self._lines.note("heartbeats are dropped", error)
            elif len(statuses) > 1:
                for status in statuses:
                    self.record([status])
            else:
                logger.exception("the heartbeat of node %s cannot be stored", statuses[0].node[:60])
                metrics.refused_messages.labels("heartbeat", "malformed").inc()
            return
        metrics.heartbeats.inc(counted)
        if counted < len(statuses):
            metrics.refused_messages.labels("heartbeat", "wrong key").inc(len(statuses) - counted)
