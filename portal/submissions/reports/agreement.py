"""Whether a node's report is about what was assigned to it, and fits the profile that it was assigned on."""

from collections.abc import Iterator

from evaluator.contract import Delivery, EvaluationReport
from evaluator.hardware import profiles
from portal.submissions import sweeps
from portal.submissions.models import Evaluation
from problems.spec.schema import SizeName


def disagreement(delivery: Delivery, evaluation: Evaluation) -> str:
    """The first thing in which a delivery is not what `evaluation` asked for, in words; empty where there is none."""
    profile = profiles.get(evaluation.profile)
    sizes = {*SizeName, *sweeps.names(evaluation)}
    wrong = (*_with_assignment(delivery, evaluation, profile), *_with_profile(delivery.report, profile, sizes))
    return next(iter(wrong), "")


def _with_assignment(delivery: Delivery, evaluation: Evaluation, profile: profiles.Profile) -> Iterator[str]:
    report, submission = delivery.report, evaluation.submission
    compared = {
        "node": (delivery.node, evaluation.node.name if evaluation.node is not None else None),
        "problem": (report.problem, submission.problem),
        "revision": (report.revision, evaluation.problem_revision),
        "source_digest": (report.source_digest, submission.source.digest),
        "backend": (report.backend, submission.backend),
        "profile": (report.profile, evaluation.profile),
        "mode": (report.mode, evaluation.mode),
        "world_size": (report.world_size, profile.world_size),
    }
    for name, (reported, assigned) in compared.items():
        if reported != assigned:
            yield f"{name} is {str(reported)[:60]!r} and was assigned as {str(assigned)!r}"


def _with_profile(report: EvaluationReport, profile: profiles.Profile, sizes: set[str]) -> Iterator[str]:
    if report.is_untimed if profile.measures_time else report.timing is not None:
        yield f"its times are {'left out' if report.is_untimed else 'there'}, other than on {profile.name}"
    timing = report.timing.sizes if report.timing is not None else ()
    record = report.record.sizes if report.record is not None else ()
    named = [*(size.size for size in report.sizes), *(size.size for size in timing), *(size.size for size in record)]
    named += [report.timeline.size] if report.timeline is not None else []
    if unknown := {*named, *(point.size for point in report.points)} - sizes:
        yield f"it names the size {min(unknown)[:60]!r}, which the problem does not have"
    # A check that passed is repeated on the other number of ranks that its machine has.
    other = profiles.get(profile.cross_check).world_size if profile.cross_check else 0
    most = max(profile.world_size, other)
    if max((state.rank for state in report.ranks), default=0) >= most or len(report.ranks) > most:
        yield f"ranks are not those of {most} ranks"
    if any(check.rank >= most for size in report.sizes for check in size.outputs):
        yield f"sizes name an output of a rank beyond {most} ranks"
    if any(len(call.done_ns) != profile.world_size for size in record for call in size.calls):
        yield f"record has a call without the times of {profile.world_size} ranks"
    if any(len(size.rank_medians_us) not in (0, profile.world_size) for size in timing):
        yield f"timing has medians of other than {profile.world_size} ranks"
    calls = (report.timeline.submission, report.timeline.reference) if report.timeline is not None else ()
    if any(call is not None and len(call.ranks) > profile.world_size for call in calls):
        yield f"timeline has more than {profile.world_size} ranks"
