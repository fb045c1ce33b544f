"""The kernels of `problems/data/entries` on their boards: a file per problem, reports in `kernels.reports.xz`."""

import uuid

from django.db import transaction
from django.db.models import QuerySet

from portal.operations.recorded.reports import (
    NotRecorded,
    delete,
    enter,
    read_reports,
    read_source,
)
from portal.submissions.models import Evaluation
from problems import registry

FOLDER = registry.DATA / "entries"
REPORTS = "kernels.reports.xz"


def add() -> tuple[int, list[str]]:
    """Put every report that ships on its board, once.

    An entry whose report ships at another revision since, as after an update of the site, is replaced.
    Given are how many were added, and which reports were refused, and why.
    """
    present = dict(_entries().values_list("pk", "problem_revision"))
    added, refused = 0, []
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
    return added, refused


@transaction.atomic
def remove() -> int:
    """Delete every recorded entry; returns how many there were."""
    return delete(_entries())


def _entries() -> QuerySet[Evaluation]:
    return Evaluation.objects.filter(recorded_on__isnull=False, submission__is_attempt=False)
