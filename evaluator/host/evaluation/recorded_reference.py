"""A recorded call of the reference, for the timeline beside the submission's. No verdict uses it."""

import logging
from dataclasses import dataclass

from evaluator.contract import CallTimeline
from evaluator.errors import EvaluatorError
from evaluator.host.evaluation.job import Job
from evaluator.host.measure.references import RecordedReferences
from evaluator.host.ranks.trusted_ranks import TrustedRanks

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RecordedReference:
    """The recorded call.

    Attributes:
        timeline: None where there is none.
        has_stuck_ranks: whether the ranks did not finish it.
    """

    timeline: CallTimeline | None = None
    has_stuck_ranks: bool = False


def record(job: Job, references: RecordedReferences, trusted: TrustedRanks, *, size: str) -> RecordedReference:
    """Take the reference's timeline from `references`, which records it where it is new. A failure fails nothing."""
    try:
        timeline = references.take(trusted, problem=job.request.problem, size=size, dtype=job.dtype)
    except EvaluatorError as error:
        logger.warning("evaluation %s: the reference was not recorded: %s", job.request.evaluation_id, error)
        return RecordedReference(has_stuck_ranks=True)
    return RecordedReference(timeline=timeline)
