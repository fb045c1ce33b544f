"""The events that this app sends to the apps above it."""

from dataclasses import dataclass

from portal.core.hooks import Hook
from portal.submissions.models import Evaluation, Submission


@dataclass(frozen=True, kw_only=True)
class QuarantineChanged:
    """An operator or a rejudge has put an entry into quarantine, or an operator has lifted it, with a reason."""

    submission: Submission
    is_quarantined: bool
    reason: str


evaluation_queued: Hook[Evaluation] = Hook()
"""An author has asked for an evaluation: its row, with its submission. What operators have judged again is not sent.

Sent inside the transaction that stores the author's request."""

evaluation_ended: Hook[Evaluation] = Hook()
"""An evaluation has ended: its final row. Sent inside the transaction that ends it."""

quarantine_changed: Hook[QuarantineChanged] = Hook()
"""Sent inside the transaction in which it is decided; the submission's row is locked."""
