"""What nodes say of evaluations, as it arrives: refused where it is not theirs to say, recorded where it is.

A message that comes again, or after its lease has ended, changes nothing and has the same answer as the first time.
"""

import logging
from datetime import datetime

from evaluator.contract import Delivery, Progress
from portal.core import metrics
from portal.core.errors import Refusal
from portal.nodes.leases import was_given
from portal.nodes.models import Node
from portal.submissions import queries
from portal.submissions.actions.recording import record_delivery, record_progress

logger = logging.getLogger(__name__)


def receive_progress(node: Node, progress: Progress, now: datetime) -> None:
    """Note how far `node` is; raises Refusal."""
    if _holds(node, progress.evaluation_id, progress.lease, kind="progress"):
        record_progress(progress, now)


def receive_delivery(node: Node, delivery: Delivery, now: datetime) -> None:
    """Record the report of `node`.

    Raises:
        Refusal: it names another node (422), its lease is not this node's (403) or was never given to it (409), or it
            is not about what was sent under that lease (422).
    """
    report = delivery.report
    if delivery.node != node.name:
        metrics.refused_messages.labels("report", "forged name").inc()
        raise Refusal(
            field="node",
            value=delivery.node[:60],
            message=f"The report names another node than {node.name}, whose key it came with.",
            remedy="Send the reports of a node under its own address, with its own key.",
        )
    if not _holds(node, report.evaluation_id, delivery.lease, kind="report"):
        logger.info("report on %s came again, or after its lease had ended", report.evaluation_id)
        return
    record_delivery(delivery, now)


def _holds(node: Node, evaluation_id: str, lease: str, *, kind: str) -> bool:
    """Whether `node` holds this lease now; False where it held it once. Raises Refusal where it never did."""
    holder = queries.holder_of(evaluation_id, lease)
    if holder == node:
        return True
    if holder is None and was_given(lease, evaluation_id, node.name):
        return False
    reason = "no lease" if holder is None else "another's lease"
    logger.warning("%s of node %s on %s refused: %s", kind, node, evaluation_id[:40], reason)
    metrics.refused_messages.labels(kind, reason).inc()
    if holder is not None:
        raise Refusal(
            field="lease",
            value=evaluation_id[:60],
            message="Another node holds this lease.",
            remedy="A node reports only on what was sent to it.",
            status=403,
        )
    raise Refusal(
        field="lease",
        value=evaluation_id[:60],
        message=f"This site never gave node {node.name} such a lease on this evaluation.",
        remedy="Send the report to the site that sent the work.",
        status=409,
    )
