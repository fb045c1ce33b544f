"""What the site's worker does with a node's heartbeat."""

import logging
import threading
from datetime import UTC, datetime
from typing import Any

from celery import Celery, Task

from evaluator.contract import ContractError, NodeStatus, TaskName
from portal import metrics
from portal.celery import app
from portal.dispatcher.arrivals import REST_S, Arrivals, Recorder
from portal.node_messages import without_nul
from portal.plain_messages import Handler, refuse_unless_plain

logger = logging.getLogger(__name__)

MOST_CHARACTERS = 100_000
"""A heartbeat of 64 slots with their notes has about half of that."""

_recorder = Recorder(Arrivals(), rest=lambda: threading.Event().wait(REST_S))


def in_the_first_process(task: Task[Any, Any], _app: Celery, consumer: Any, **_options: Any) -> Handler:
    """A way of taking a message that leaves the worker's pool alone: the heartbeat is noted, and acknowledged."""

    def take(message: Any, body: Any, acknowledge: Any, *_rest: Any, **_further: Any) -> None:
        refuse_unless_plain(task, message, body)
        args = message.payload[0]
        if is_late(message.headers.get("expires"), datetime.now(UTC)):
            logger.warning("a heartbeat has expired on its way, or its node's clock is behind; ignored")
            metrics.refused_messages.labels("heartbeat", "late").inc()
        elif args and isinstance(args[0], str):
            status = parsed(args[0])
            if status is not None:
                _recorder.note(status)
        acknowledge(logger, consumer.connection_errors)

    return take


def is_late(expires: object, now: datetime) -> bool:
    """Whether a message is past the time that its sender named (ISO 8601, UTC where it names no zone)."""
    if not isinstance(expires, str):
        return False
    try:
        end = datetime.fromisoformat(expires)
    except ValueError:
        return True
    return (end if end.tzinfo else end.replace(tzinfo=UTC)) < now


def parsed(text: str) -> NodeStatus | None:
    """The heartbeat that `text` holds; None, with a line in the log, where it holds none."""
    fault: object = f"it has {len(text)} characters"
    if len(text) <= MOST_CHARACTERS:
        try:
            return NodeStatus.from_json(without_nul(text))
        except ContractError as error:
            fault = error
    logger.warning("heartbeat refused: %s", fault)
    metrics.refused_messages.labels("heartbeat", "malformed").inc()
    return None


@app.task(name=TaskName.RECORD_NODE_STATUS.value, Strategy=f"{__name__}:{in_the_first_process.__name__}")
def record_node_status(text: str, _key: str = "") -> None:
    """Record a heartbeat at once. A worker does not run this: `in_the_first_process` takes its messages."""
    status = parsed(text)
    if status is not None:
        _recorder.record([status])
