"""The events that this app sends to the apps above it."""

from dataclasses import dataclass

from portal.core.hooks import Hook
from portal.ranking.models import Record, Standing


@dataclass(frozen=True, kw_only=True)
class StandingRaised:
    """An evaluation that has just ended made an author's standing, or bettered it.

    Attributes:
        standing: as it is now.
        previous_low: the lower end that it had before; None where it is new.
        beaten: the record that it replaced; None if it is no record, or the board's first.
    """

    standing: Standing
    previous_low: float | None
    beaten: Record | None


standing_raised: Hook[StandingRaised] = Hook()
"""Sent inside the transaction that ends the evaluation; a rebuild sends nothing."""
