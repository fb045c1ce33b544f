"""The tasks that the site's worker runs for messages of nodes."""

import hashlib
import logging

from django.db import InterfaceError, OperationalError
from django.utils import timezone

from evaluator.contract import ContractError, Delivery, Progress, Receipt, Stored, TaskName
from portal import metrics
from portal.artefacts.storage import NotAsStored, StorageUnavailable, remove, taken
from portal.celery import app
from portal.node_messages import without_nul
from portal.nodes.actions import has_key
from portal.nodes.messages import send_receipt
from portal.nodes.models import Node
from portal.submissions import actions, queries

logger = logging.getLogger(__name__)


@app.task(name=TaskName.RECORD_PROGRESS.value)
def record_progress(text: str, key: str = "") -> None:
    """Take a progress message from the node that has this key."""
    try:
        progress = Progress.from_json(without_nul(text))
    except ContractError as error:
        logger.warning("progress refused: %s", error)
        metrics.refused_messages.labels("progress", "malformed").inc()
        return
    if _may_report(progress.evaluation_id, progress.lease, key):
        actions.record_progress(progress, timezone.now())


# A database that restarts must not cost a report: the node sends its copy only some times again.
@app.task(
    name=TaskName.RECORD_DELIVERY.value,
    autoretry_for=(OperationalError, InterfaceError),
    max_retries=None,
    retry_backoff=1,
    retry_backoff_max=30,
)
def record_delivery(text: str, key: str = "") -> None:
    """Take a report from the node that has this key."""
    try:
        delivery = Delivery.from_json(without_nul(text))
    except ContractError as error:
        logger.warning("report refused: %s", error)
        metrics.refused_messages.labels("report", "malformed").inc()
        return
    if _may_report(delivery.report.evaluation_id, delivery.lease, key):
        actions.record_delivery(delivery, timezone.now())
    _acknowledge(delivery.node, key, sha256=hashlib.sha256(text.encode()).hexdigest())


def _acknowledge(node: str, key: str, *, sha256: str) -> None:
    """Tell the node of this key that its report was recorded, or counts no longer: else it would send it again."""
    sender = Node.objects.filter(name=node).first()
    if sender is not None and has_key(sender, key):
        send_receipt(sender.name, Receipt(sha256=sha256))


def _may_report(evaluation_id: str, lease: str, key: str) -> bool:
    """Whether the lease is valid and the key is that of its node; refused messages are logged."""
    node = queries.holder_of(evaluation_id, lease)
    if node is None:
        logger.warning("a report on %s came without a lease that is held; refused", evaluation_id[:40])
        metrics.refused_messages.labels("report", "no lease").inc()
        return False
    if not has_key(node, key):
        logger.warning("a report on %s came without the key of node %s; refused", evaluation_id[:40], node)
        metrics.refused_messages.labels("report", "wrong key").inc()
        return False
    return True


@app.task(
    name=TaskName.RECORD_STORED.value,
    autoretry_for=(OperationalError, InterfaceError, StorageUnavailable),
    max_retries=None,
    retry_backoff=1,
    retry_backoff_max=30,
)
def record_stored(text: str, key: str = "") -> None:
    """Take a report that the node of this key has put into the storage, and remove it there.

    Nothing is read for a message without the lease and the node's key.
    """
    try:
        stored = Stored.from_json(without_nul(text))
    except ContractError as error:
        _refuse_stored(str(error))
        return
    if not _may_report(stored.evaluation_id, stored.lease, key):
        _acknowledge(stored.node, key, sha256=stored.sha256)
        return
    try:
        delivery = Delivery.from_json(without_nul(taken(stored).decode()))
    except (ContractError, NotAsStored, UnicodeDecodeError) as error:
        _refuse_stored(str(error))
        return
    if (delivery.lease, delivery.report.evaluation_id) != (stored.lease, stored.evaluation_id):
        _refuse_stored("it is of another lease than its message")
        return
    actions.record_delivery(delivery, timezone.now())
    remove(stored)
    _acknowledge(stored.node, key, sha256=stored.sha256)


def _refuse_stored(why: str) -> None:
    logger.warning("stored report refused: %s", why)
    metrics.refused_messages.labels("report", "not as stored").inc()
