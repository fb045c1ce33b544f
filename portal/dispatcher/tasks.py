"""The task that the site's worker runs for a node's heartbeat."""

import logging

from django.utils import timezone

from evaluator.contract import ContractError, NodeStatus, TaskName
from portal import metrics
from portal.celery import app
from portal.dispatcher.heartbeats import record_heartbeat
from portal.node_messages import without_nul

logger = logging.getLogger(__name__)


@app.task(name=TaskName.RECORD_NODE_STATUS.value)
def record_node_status(text: str, _key: str = "") -> None:
    """Take a heartbeat."""
    try:
        status = NodeStatus.from_json(without_nul(text))
    except ContractError as error:
        logger.warning("heartbeat refused: %s", error)
        metrics.refused_messages.labels("heartbeat", "malformed").inc()
        return
    if record_heartbeat(status, timezone.now()):
        metrics.heartbeats.inc()
    else:
        metrics.refused_messages.labels("heartbeat", "wrong key").inc()
