"""The events that this app sends to the apps above it."""

from dataclasses import dataclass

from portal.core.hooks import Hook
from portal.submissions.models import Evaluation, Submission


@dataclass(frozen=True, kw_only=True)
class EvaluationQueued:
    """An author has asked for an evaluation: its row, with its submission. What operators have judged again is not."""

    evaluation: Evaluation


@dataclass(frozen=True, kw_only=True)
class EvaluationEnded:
    """An evaluation has finished or was cancelled: its final row."""

    evaluation: Evaluation


@dataclass(frozen=True, kw_only=True)
class EvaluationRefunded:
    """An operator gave back what an evaluation has cost."""

    evaluation: Evaluation


@dataclass(frozen=True, kw_only=True)
class QuarantineChanged:
    """An operator has put an entry into quarantine, or lifted it."""

    submission: Submission
    is_quarantined: bool


evaluation_queued: Hook[EvaluationQueued] = Hook()
"""Sent inside the transaction that stores the author's request."""

evaluation_ended: Hook[EvaluationEnded] = Hook()
"""Sent inside the transaction that ends an evaluation: by its report, by its author, or by the last lost lease."""

evaluation_refunded: Hook[EvaluationRefunded] = Hook()
"""Sent inside the transaction in which an operator has it judged again and refunds its cost."""

quarantine_changed: Hook[QuarantineChanged] = Hook()
"""Sent inside the transaction in which an operator decides; the submission's row is locked."""
