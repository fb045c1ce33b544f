"""Reports from elsewhere: their files, what is checked before they are stored, and the rows that they become."""

import json
import lzma
import uuid
from datetime import datetime
from pathlib import Path

from django.db import transaction
from django.db.models import QuerySet

from evaluator.contract import ContractError, EvaluationReport, Mode, SourceBundle, SourceFile, Verdict
from evaluator.hardware import profiles
from evaluator.judging.recompute import recompute
from portal.accounts.actions import own_author
from portal.catalog import measurements
from portal.ranking.actions import forget, order_records
from portal.submissions import actions, hooks, sweeps
from portal.submissions.models import Evaluation, Report, Source, State, Submission, Visibility


class NotRecorded(Exception):
    """A report or its source cannot be stored; the message says why."""


def read_reports(path: Path) -> dict[str, EvaluationReport]:
    """The reports in a file, by evaluation; raises NotRecorded."""
    try:
        reports = [EvaluationReport.from_json(line) for line in lzma.decompress(path.read_bytes()).splitlines()]
        return {str(uuid.UUID(report.evaluation_id)): report for report in reports}
    except (ContractError, OSError, ValueError, lzma.LZMAError) as error:
        raise NotRecorded(f"{path} holds no reports: {error}") from error


def read_source(path: Path) -> SourceBundle:
    """The program in one file; raises NotRecorded."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotRecorded(f"there is no source {path}") from error
    return SourceBundle(files=(SourceFile(path=SourceBundle.ENTRY, text=text),))


def check(report: EvaluationReport, source: SourceBundle) -> None:
    """Check a report against its source and against its own record of calls.

    Raises:
        NotRecorded: it is of another source, is no accepted ranked evaluation or sweep, or contradicts its record.
    """
    if report.source_digest != source.digest:
        raise NotRecorded("the source has changed since the evaluation")
    if report.verdict is not Verdict.PASSED or report.mode not in (Mode.RANKED, Mode.SWEEP):
        raise NotRecorded(
            f"it is no accepted ranked evaluation or sweep but {report.verdict.value} in mode {report.mode.value}"
        )
    if differences := recompute(report).differences:
        raise NotRecorded("; ".join(differences))


@transaction.atomic
def enter(report: EvaluationReport, source: SourceBundle) -> Evaluation:
    """Put a report with its source on its board, as an entry of this site's own author; raises NotRecorded."""
    check(report, source)
    actions.store_sources([source])
    submission, _ = Submission.objects.get_or_create(
        author=own_author(),
        idempotency_key=f"recorded {source.digest}"[:100],
        defaults={
            "problem": report.problem,
            "source": Source.objects.get(digest=source.digest),
            "backend": report.backend.value,
            "visibility": Visibility.PUBLIC,
            "requested_visibility": Visibility.PUBLIC,
            "note": "written by hand by this site's authors",
            "notes": measurements.rests_on().get(report.problem, {}).get("sentence", ""),
            "created_at": datetime.fromisoformat(report.finished_at),
        },
    )
    evaluation = store(report, submission)
    hooks.evaluation_ended.send(evaluation)
    order_records(evaluation)
    return evaluation


def store(report: EvaluationReport, submission: Submission) -> Evaluation:
    """Store a report as a finished evaluation that carries the mark of when and on what it was judged."""
    ended = datetime.fromisoformat(report.finished_at)
    began = datetime.fromisoformat(report.started_at) if report.started_at else ended
    evaluation = Evaluation.objects.create(
        pk=uuid.UUID(report.evaluation_id),
        submission=submission,
        problem_revision=report.revision,
        profile=report.profile,
        mode=report.mode.value,
        state=State.FINISHED,
        queued_at=began,
        started_at=began,
        finished_at=ended,
        recorded_on=ended.date(),
        recorded_where=hardware(report.profile),
        **actions.outcome_of(report),
    )
    if report.points:
        evaluation.points = sweeps.with_points(evaluation, report.points)
        evaluation.save(update_fields=["points"])
    Report.objects.create(
        evaluation=evaluation,
        attempt=1,
        node_name=evaluation.recorded_where,
        content=json.loads(report.to_json()),
        received_at=ended,
    )
    return evaluation


def hardware(profile: str) -> str:
    """The hardware of a profile as a mark names it, such as "2 H200"."""
    chosen = profiles.get(profile)
    if chosen.shares_gpu:
        return f"{chosen.world_size} ranks on one GPU"
    return f"{chosen.world_size} {chosen.gpu or 'CPU ranks'}"


def delete(recorded: QuerySet[Evaluation]) -> int:
    """Delete evaluations with everything that came with them or was derived; returns how many there were.

    What this site judged stays, also of the same sources.
    """
    pks = list(recorded.values_list("pk", flat=True))
    submissions = list(recorded.values_list("submission", flat=True).distinct())
    chosen = Evaluation.objects.filter(pk__in=pks)
    forget(chosen)
    Report.objects.filter(evaluation__in=pks).delete()
    chosen.delete()
    Submission.objects.filter(pk__in=submissions, evaluations__isnull=True).delete()
    Source.objects.filter(size_bytes=0, bundle__files=[], submissions__isnull=True).delete()
    return len(pks)
