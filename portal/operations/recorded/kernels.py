"""The kernels of `problems/data/entries` on their boards: a file per problem, reports in `kernels.reports.xz`."""

import gzip
import uuid
import zlib
from pathlib import Path

import msgspec
from django.db import transaction
from django.db.models import QuerySet

from evaluator.contract import ContractError, EvaluationReport
from portal.operations.recorded.reports import (
    NotRecorded,
    Outcome,
    check,
    delete,
    enter,
    read_reports,
    read_source,
    write_reports,
)
from portal.submissions.models import Evaluation
from problems import registry

FOLDER = registry.DATA / "entries"
REPORTS = "kernels.reports.xz"
_NAMESPACE = uuid.UUID("6f1c0a52-7f0e-5d0f-9f5a-0d6f5a1c9b11")


def ship(path: Path) -> Path:
    """Put a whole report on one of the kernels among those that ship; returns their file.

    Raises:
        NotRecorded: it is no report, is on another text than the kernel's, did not pass, or contradicts its record.
    """
    try:
        data = path.read_bytes()
        report = EvaluationReport.from_json(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (ContractError, OSError, EOFError, zlib.error) as error:
        raise NotRecorded(f"{path} is no report: {error}") from error
    check(report, read_source(FOLDER / f"{report.problem}.py"))
    # The same evaluation has the same key, whatever the machine that judged it called it.
    parts = (report.problem, report.profile, report.source_digest, report.finished_at)
    key = str(uuid.uuid5(_NAMESPACE, "/".join(parts)))
    report = msgspec.structs.replace(report, evaluation_id=key)
    held = {known: other for known, other in read_reports(FOLDER / REPORTS).items() if known != key}
    write_reports(FOLDER / REPORTS, [*held.values(), report])
    return FOLDER / REPORTS


def add() -> Outcome:
    """Put every report that ships on its board, once.

    An entry whose report ships at another revision since, as after an update of the site, is replaced.
    """
    present = dict(_entries().values_list("pk", "problem_revision"))
    current = {problem.slug: registry.revision(problem.slug) for problem in registry.problems()}
    added, older, refused = 0, 0, []
    for key, report in read_reports(FOLDER / REPORTS).items():
        if present.get(uuid.UUID(key)) == report.revision:
            continue
        try:
            with transaction.atomic():
                delete(Evaluation.objects.filter(pk=key))
                enter(report, read_source(FOLDER / f"{report.problem}.py"))
        except NotRecorded as reason:
            refused.append(f"{report.problem} on {report.profile}: {reason}")
        else:
            added += 1
            older += current.get(report.problem) != report.revision
    return Outcome(added=added, older=older, refused=tuple(refused))


@transaction.atomic
def remove() -> int:
    """Delete every recorded entry; returns how many there were."""
    return delete(_entries())


def _entries() -> QuerySet[Evaluation]:
    recorded = Evaluation.objects.filter(recorded_on__isnull=False, submission__is_attempt=False)
    return recorded.filter(season_entries=None, final_season_entries=None)
