"""What the site's worker does when it hears a node's heartbeat."""

import logging

from django.utils import timezone

from evaluator.contract import ContractError, NodeStatus, TaskName
from portal.celery import app
from portal.dispatcher.heartbeats import record_heartbeat

logger = logging.getLogger(__name__)


@app.task(name=TaskName.RECORD_NODE_STATUS.value)
def record_node_status(text: str, _key: str = "") -> None:
    """Take a heartbeat."""
    try:
        status = NodeStatus.from_json(text)
    except ContractError as error:
        logger.warning("heartbeat refused: %s", error)
        return
    record_heartbeat(status, timezone.now())
