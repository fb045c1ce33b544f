"""Messages of nodes: progress, and reports at the end. A message that arrives twice, late or from the wrong node
changes nothing.
"""  # noqa: D205

import json
import logging
import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Case, F, QuerySet, Value, When

from evaluator import logs
from evaluator.contract import Delivery, EvaluationReport, Progress, Verdict
from evaluator.judging import primitives
from evaluator.judging.verdicts import FACTS, Fault
from portal.core import metrics
from portal.core.errors import Refusal
from portal.submissions import queries
from portal.submissions.hooks import EvaluationEnded, evaluation_ended
from portal.submissions.models import Evaluation, Report, State
from portal.submissions.reports.agreement import disagreement

logger = logging.getLogger(__name__)

ERROR_LOG_CHARACTERS = 64 * 1024
"""So much of a judge's own log is kept with a report."""


def record_progress(progress: Progress, now: datetime) -> bool:
    """Note how far a judge is, and extend its lease; returns whether the lease was still good."""
    leased = _leased(progress.evaluation_id, progress.lease)
    # First contact starts the clock that the page shows; later progress does not reset it.
    is_first = When(state=State.LEASED, then=Value(State.RUNNING.value))
    stage = progress.stage.value
    # The sweep may take the lease away at this moment; filtering on lease and state makes one of the two win.
    return bool(
        leased.update(
            state=Case(is_first, default=F("state")),
            started_at=Case(When(state=State.LEASED, then=Value(now)), default=F("started_at")),
            stage_since=Case(When(stage=stage, then=F("stage_since")), default=Value(now)),
            stage=stage,
            stage_detail=progress.detail[:300],
            stage_fraction=progress.fraction,
            lease_expires_at=now + timedelta(seconds=settings.LEASE_SECONDS),
        )
    )


def record_delivery(delivery: Delivery, now: datetime) -> bool:
    """Record the report that a node delivers under its lease; returns whether it counted.

    Stores the report, ends the evaluation or queues it again after a failure of ours, and sends `evaluation_ended`, all
    in one transaction.

    Raises:
        Refusal: it is not about what was sent under that lease (422).
    """
    report = delivery.report
    with transaction.atomic():
        evaluation = (
            _leased(report.evaluation_id, delivery.lease)
            .select_for_update(of=("self",))
            .select_related("submission__source", "node")
            .first()
        )
        if evaluation is None:
            logger.info("report on %s from %s has no valid lease; ignored", report.evaluation_id, delivery.node)
            metrics.refused_messages.labels("report", "no lease").inc()
            return False
        if reason := disagreement(delivery, evaluation):
            logger.warning("report on %s from %s refused: %s", report.evaluation_id, delivery.node[:60], reason)
            metrics.refused_messages.labels("report", "not as assigned").inc()
            raise Refusal(
                field="report",
                value=report.evaluation_id,
                message=f"The report is not about what was sent: {reason}.",
                remedy="Bring site and node to the same version. The evaluation is judged again after its lease.",
            )
        with logs.about(**evaluation.facts, lease=logs.lease_mark(delivery.lease), node=delivery.node):
            return _record(evaluation, delivery, now)


def _record(evaluation: Evaluation, delivery: Delivery, now: datetime) -> bool:
    """What `record_delivery` does once the lease is known to be good."""
    report = delivery.report
    if delivery.is_returned and report.verdict is Verdict.JUDGE_FAILURE:
        # The node was asked to stop before it was done: no report on a try, and none of the tries is used up.
        detail = f"Given back by {delivery.node}: {report.message}"
        return _queue_again(evaluation, delivery, attempt=evaluation.attempt, detail=detail)
    Report.objects.create(
        evaluation=evaluation,
        attempt=evaluation.attempt,
        node_name=delivery.node,
        content=json.loads(report.to_json()),
        error_log=delivery.error_log[:ERROR_LOG_CHARACTERS],
        received_at=now,
    )
    verdict = FACTS[report.verdict]
    metrics.count_report(report, is_our_failure=verdict.fault is Fault.JUDGE)
    logger.info("report with verdict %s", report.verdict.value)
    if verdict.is_retried and evaluation.attempt < settings.MAX_TRIES:
        detail = f"Try {evaluation.attempt} failed on our side: {report.message}"
        return _queue_again(evaluation, delivery, attempt=evaluation.attempt + 1, detail=detail)
    return _finish(evaluation, delivery, now)


def _leased(evaluation_id: str, lease: str) -> QuerySet[Evaluation]:
    """The evaluation, while `lease` is valid for it."""
    try:
        key = uuid.UUID(evaluation_id)
    except ValueError:
        return Evaluation.objects.none()
    return Evaluation.objects.filter(pk=key, lease=lease, state__in=queries.HELD)


def _queue_again(evaluation: Evaluation, delivery: Delivery, *, attempt: int, detail: str) -> bool:
    # The same report may be recorded by two requests at once: only the one that still finds the lease moves the row.
    return bool(
        Evaluation.objects.filter(pk=evaluation.pk, lease=delivery.lease).update(
            state=State.QUEUED,
            attempt=attempt,
            lease=None,
            node=None,
            slot_index=None,
            lease_expires_at=None,
            deadline_at=None,
            started_at=None,
            stage="",
            stage_detail=detail[:300],
            stage_fraction=None,
            stage_since=None,
        )
    )


def _finish(evaluation: Evaluation, delivery: Delivery, now: datetime) -> bool:
    report: EvaluationReport = delivery.report
    timing = report.timing
    # As above, and a cancel may have come first: an ended row keeps its end.
    moved = Evaluation.objects.filter(pk=evaluation.pk, lease=delivery.lease, state__in=queries.HELD).update(
        state=State.FINISHED,
        finished_at=now,
        started_at=evaluation.started_at or now,
        verdict=report.verdict.value,
        message=report.message,
        score=timing.score if timing else None,
        score_low=timing.low if timing else None,
        score_high=timing.high if timing else None,
        score_rule=timing.rule if timing else None,
        primitives=[found.value for found in primitives.names(report.primitives)],
        has_alarms=bool(report.alarms),
        lease=None,
        lease_expires_at=None,
        stage_fraction=None,
    )
    if moved:
        evaluation.refresh_from_db(from_queryset=Evaluation.objects.select_related("submission"))
        evaluation_ended.send(EvaluationEnded(evaluation=evaluation))
    return bool(moved)
