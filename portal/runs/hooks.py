"""The events that this app sends to the apps above it."""

from dataclasses import dataclass

from portal.core.hooks import Hook
from portal.runs.models import Run, RunEvent


@dataclass(frozen=True, kw_only=True)
class EventsWritten:
    """Events that were written of one run, in the order of their numbers."""

    run: Run
    events: tuple[RunEvent, ...]


events_written: Hook[EventsWritten] = Hook()
"""Sent inside the transaction that writes the events, under the lock of the run's row."""
