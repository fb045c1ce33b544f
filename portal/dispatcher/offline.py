"""Evaluations that are judged on a machine without a network: requests go out as a file, reports come back as files.

`python -m evaluator batch` judges such a file. An evaluation stays queued until its report is here, so a node that is
online may still judge it, and then the report that comes later changes nothing.
"""

import gzip
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from django.db import transaction

from evaluator.contract import ContractError, Delivery, EvaluationReport, EvaluationRequest
from evaluator.judging.recompute import recompute
from portal.core.errors import Refusal, uuid_of
from portal.nodes.models import Node
from portal.runs.models import Run
from portal.submissions import actions, lifecycle, queries
from portal.submissions.models import Evaluation, State
from problems import registry


class ReportRefused(Exception):
    """A report is not recorded; the text says why."""


def waiting_requests(profile: str, *, runs: Sequence[Run] = ()) -> Iterator[EvaluationRequest]:
    """What waits for `profile`, as a node would be asked: run by run in the given order, or all in the queue's order.

    Within a run the order is that of the problems' numbers.
    """
    waiting = Evaluation.objects.filter(profile=profile, state__in=State.without_a_node()).select_related(
        "submission__source"
    )
    if not runs:
        yield from map(queries.request_of, waiting.order_by("-priority", "turn", "queued_at"))
        return
    for run in runs:
        of_run = waiting.filter(submission__attempt__run=run)
        yield from map(
            queries.request_of,
            sorted(of_run, key=lambda evaluation: registry.get(evaluation.submission.problem).number),
        )


def import_reports(paths: Sequence[Path], *, node: Node) -> tuple[Counter[str], list[str]]:
    """Record reports that `node` made offline, each as if it came under a lease of that node.

    Score, interval and verdict on the times are computed again first; a report that disagrees with its own calls is
    refused. A report is recorded whole or not at all.

    Returns:
        How many are `recorded` now, were `known` before, and are `foreign`: of no evaluation here. Which were refused,
        and why.
    """
    counts, refused = Counter[str](), []
    for path in sorted(paths):
        try:
            report = _read(path)
            evaluation = Evaluation.objects.filter(pk=uuid_of(report.evaluation_id)).first()
            if evaluation is None:
                counts["foreign"] += 1
            elif evaluation.has_ended:
                counts["known"] += 1
            else:
                _record(report, evaluation, node=node)
                counts["recorded"] += 1
        except ReportRefused as reason:
            refused.append(f"{path}: {reason}")
    return counts, refused


def _read(path: Path) -> EvaluationReport:
    try:
        raw = path.read_bytes()
        return EvaluationReport.from_json(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    except (OSError, EOFError) as error:
        raise ReportRefused(f"it cannot be read: {error}") from error
    except ContractError as error:
        raise ReportRefused(f"it is no report: {error}") from error


def _record(report: EvaluationReport, evaluation: Evaluation, *, node: Node) -> None:
    if differences := recompute(report).differences:
        raise ReportRefused(f"it disagrees with its own calls: {'; '.join(differences[:3])}")
    ended = datetime.fromisoformat(report.finished_at)
    started = datetime.fromisoformat(report.started_at) if report.started_at else ended
    with transaction.atomic():
        attempt = 1 + max((earlier.attempt for earlier in report.earlier), default=0)
        # Only one of a dispatcher and this finds the row still waiting.
        lease = lifecycle.begin_offline(evaluation, node, attempt=attempt, started_at=started)
        if lease is None:
            raise ReportRefused("its evaluation is being judged now")
        try:
            actions.record_delivery(Delivery(lease=lease, node=node.name, report=report), ended)
        except Refusal as refusal:
            # Leaving the block by an exception takes the lease back.
            raise ReportRefused(refusal.message) from refusal
