"""What this app tells the apps above it."""

from dataclasses import dataclass

from portal.hooks import Hook
from portal.submissions.models import Evaluation


@dataclass(frozen=True, kw_only=True)
class EvaluationEnded:
    """An evaluation has finished or was cancelled: its row as it is now, which nothing changes any more."""

    evaluation: Evaluation


evaluation_ended: Hook[EvaluationEnded] = Hook()
"""Told inside the transaction that ends an evaluation: by its report, by its author, or by the last lost lease."""
