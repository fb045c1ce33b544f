"""What nodes say of evaluations: refused where it is not theirs to say, recorded where it is.

A message that comes again, or after its lease has ended, changes nothing and has the same answer as the first time.
"""

import json
import logging
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from evaluator import logs
from evaluator.contract import SCORE_RULE, Delivery, EvaluationReport, Mode, Progress, Verdict
from evaluator.judging import primitives
from evaluator.judging.verdicts import FACTS, Fault
from portal.catalog.size_times import other_speedups
from portal.core import metrics
from portal.core.errors import Conflict, Forbidden, Refusal
from portal.nodes.actions import check_name
from portal.nodes.models import Node
from portal.submissions import lifecycle, sweeps
from portal.submissions.actions.moderate import revoke_pass
from portal.submissions.models import Evaluation, Report
from portal.submissions.reports.agreement import disagreement

logger = logging.getLogger(__name__)

ERROR_LOG_CHARACTERS = 64 * 1024
"""So much of a judge's own log is kept with a report."""


def receive_progress(node: Node, progress: Progress, now: datetime) -> None:
    """Note how far `node` is, and keep the points that a sweep has measured; raises Refusal."""
    if _holds(node, progress.evaluation_id, progress.lease, kind="progress"):
        known = (
            Evaluation.objects.select_related("submission").get(pk=progress.evaluation_id) if progress.points else None
        )
        points = {"points": sweeps.with_points(known, progress.points)} if known else {}
        lifecycle.note_progress(progress, now, **points)


def receive_delivery(node: Node, delivery: Delivery, now: datetime) -> None:
    """Record the report of `node`.

    Raises:
        Refusal: it names another node (422), its lease is not this node's (403) or was never given to it (409), or it
            is not about what was sent under that lease (422).
    """
    report = delivery.report
    check_name(node, delivery.node, kind="report")
    if not _holds(node, report.evaluation_id, delivery.lease, kind="report"):
        logger.info("report on %s came again, or after its lease had ended", report.evaluation_id)
        return
    record_delivery(delivery, now)


def _holds(node: Node, evaluation_id: str, lease: str, *, kind: str) -> bool:
    """Whether `node` holds this lease now; False where it held it once. Raises Refusal where it never did."""
    leased = lifecycle.under_lease(evaluation_id, lease).select_related("node").first()
    holder = leased.node if leased is not None else None
    if holder == node:
        return True
    if holder is None and lifecycle.was_given(lease, evaluation_id, node.name):
        return False
    reason = "no lease" if holder is None else "another's lease"
    logger.warning("%s of node %s on %s refused: %s", kind, node, evaluation_id[:40], reason)
    metrics.refused_messages.labels(kind, reason).inc()
    if holder is not None:
        raise Forbidden(
            "lease", evaluation_id[:60], "Another node holds this lease.", "A node reports only on what was sent to it."
        )
    message = f"This site never gave node {node.name} such a lease on this evaluation."
    raise Conflict("lease", evaluation_id[:60], message, "Send the report to the site that sent the work.")


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
            lifecycle.under_lease(report.evaluation_id, delivery.lease)
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
            remedy = "Bring site and node to the same version. The evaluation is judged again."
            raise Refusal("report", report.evaluation_id, f"The report is not about what was sent: {reason}.", remedy)
        with logs.about(**evaluation.facts, lease=logs.lease_mark(delivery.lease), node=delivery.node):
            return _record(evaluation, delivery, now)


def _record(evaluation: Evaluation, delivery: Delivery, now: datetime) -> bool:
    report = delivery.report
    if delivery.is_returned and report.verdict is Verdict.JUDGE_FAILURE:
        # The node was asked to stop before it was done: no report on a try, and none of the tries is used up.
        detail = f"Given back by {delivery.node}: {report.message}"
        return lifecycle.queue_again(evaluation, attempt=evaluation.attempt, detail=detail)
    Report.objects.create(
        evaluation=evaluation,
        attempt=evaluation.attempt,
        node_name=delivery.node,
        content=json.loads(report.to_json()),
        error_log=delivery.error_log[:ERROR_LOG_CHARACTERS],
        received_at=now,
    )
    if report.mode is Mode.SWEEP:
        evaluation.points = sweeps.with_points(evaluation, report.points)
        evaluation.save(update_fields=["points"])
    verdict = FACTS[report.verdict]
    metrics.count_report(report, is_our_failure=verdict.fault is Fault.JUDGE)
    logger.info("report with verdict %s", report.verdict.value)
    if verdict.is_retried and evaluation.attempt < settings.MAX_TRIES:
        detail = f"Try {evaluation.attempt} failed on our side: {report.message}"
        return lifecycle.queue_again(evaluation, attempt=evaluation.attempt + 1, detail=detail)
    started_at = evaluation.started_at or now
    has_ended = lifecycle.finish(
        evaluation,
        now=now,
        started_at=started_at,
        has_alarms=bool(report.alarms),
        **outcome_of(report) | sweeps.outcome(evaluation, report),
    )
    if has_ended:
        revoke_pass(evaluation, report)
    return has_ended


def outcome_of(report: EvaluationReport) -> dict[str, Any]:
    """The columns in which an evaluation has the outcome that `report` tells."""
    timing = report.timing
    # An entry that nothing times has its rule, and an interval that begins at 0.
    is_untimed = report.is_untimed and report.verdict is Verdict.PASSED and report.mode is Mode.RANKED
    return {
        "verdict": report.verdict.value,
        "message": report.message,
        "score": timing.score if timing else None,
        "score_low": timing.low if timing else 0.0 if is_untimed else None,
        "score_high": timing.high if timing else None,
        "score_rule": timing.rule if timing else SCORE_RULE if is_untimed else None,
        "other_speedups": other_speedups(timing) if timing else {},
        "primitives": [found.value for found in primitives.names(report.primitives)],
    }
