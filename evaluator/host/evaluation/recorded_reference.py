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
    """What was recorded, and what that did to the trusted ranks.

    Attributes:
        timeline: None where the ranks did not finish the call.
        has_worn_ranks: whether a profiler has run in the trusted ranks, which may slow what they run later.
    """

    timeline: CallTimeline | None = None
    has_worn_ranks: bool = False


def record(job: Job, references: RecordedReferences, trusted: TrustedRanks, *, size: str) -> RecordedReference:
    """Take the reference's timeline from `references`, which records it where it is new. A failure fails nothing."""
    try:
        timeline, is_new = references.take(trusted, problem=job.request.problem, size=size, dtype=job.dtype)
    except EvaluatorError as error:
        logger.warning("evaluation %s: the reference was not recorded: %s", job.request.evaluation_id, error)
        return RecordedReference(has_worn_ranks=True)
    return RecordedReference(timeline=timeline, has_worn_ranks=is_new and job.plan.profile.device == "cuda")
