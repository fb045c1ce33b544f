"""Events of runs: an evaluation of an attempt ends. They are stored for the feeds and sent by `events_written`.

Every event is written under the lock of its run's row. So the numbers of a run's events grow in the order in which they
become visible, and a feed's cursor passes none by.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from portal.core.hooks import Hook
from portal.runs.models import AttemptState, EventKind, Run, RunEvent


@dataclass(frozen=True, kw_only=True)
class EventsWritten:
    """Events that were written of one run, in the order of their numbers."""

    run: Run
    events: tuple[RunEvent, ...]


events_written: Hook[EventsWritten] = Hook()
"""Sent inside the transaction that writes the events, under the lock of the run's row."""


def record(run: Run, events: Sequence[RunEvent]) -> None:
    """Store events of a run whose row the caller has locked, and send `events_written`.

    Adds `run.completed` if no attempt is pending any more.
    """
    written = list(RunEvent.objects.bulk_create(events))
    has_ended = any(event.kind == EventKind.ATTEMPT_ENDED for event in events)
    if has_ended and not run.attempts.filter(state=AttemptState.PENDING).exists():
        written.append(RunEvent.objects.create(run=run, kind=EventKind.RUN_COMPLETED))
    events_written.send(EventsWritten(run=run, events=tuple(written)))
