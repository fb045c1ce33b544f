"""Two submissions, or a submission and the reference: which to compare, and the change of outcome."""

from django.db.models import QuerySet

from evaluator.contract import EvaluationReport
from portal.accounts.models import Viewer
from portal.submissions.access import submissions_of
from portal.submissions.models import Evaluation, State, Submission
from portal.submissions.queries import latest_report

EARLIER_SHOWN = 20


def earlier_submissions(submission: Submission, viewer: Viewer) -> QuerySet[Submission]:
    """The author's submissions to the same problem before this one that `viewer` may see, newest first."""
    before = submissions_of(submission.author_id, viewer).filter(
        problem=submission.problem, is_attempt=submission.is_attempt, created_at__lt=submission.created_at
    )
    return before.order_by("-created_at")


def last_finished(submission: Submission, *, profile: str) -> Evaluation | None:
    """The newest evaluation of `submission` on `profile` that ended with a verdict."""
    return submission.evaluations.filter(profile=profile, state=State.FINISHED).order_by("-queued_at").first()


def time_pairs(old: Evaluation | None, new: Evaluation | None) -> list[tuple[str, float, float, float]]:
    """The sizes that both evaluations measured: before and now in microseconds, and how many times as fast.

    Those of other profiles, revisions or rules do not compare.
    """
    if old is None or new is None or _setting(old) != _setting(new):
        return []
    before, after = _medians(latest_report(old)), _medians(latest_report(new))
    return [(size, before[size], us, before[size] / us) for size, us in after.items() if size in before]


def _setting(evaluation: Evaluation) -> tuple[str, str, int | None, int | None]:
    """Only times of one setting compare."""
    return evaluation.profile, evaluation.problem_revision, evaluation.score_rule, evaluation.node_owner_id


def _medians(report: EvaluationReport | None) -> dict[str, float]:
    if report is None or report.timing is None:
        return {}
    return {size.size: size.candidate.median_us for size in report.timing.sizes}
