"""What the site's worker does when it hears from a judge."""

import logging

from django.db import InterfaceError, OperationalError
from django.utils import timezone

from evaluator.contract import ContractError, Delivery, Progress, TaskName
from portal import metrics
from portal.celery import app
from portal.submissions import actions

logger = logging.getLogger(__name__)


@app.task(name=TaskName.RECORD_PROGRESS.value)
def record_progress(text: str) -> None:
    """Take a sign of life."""
    try:
        progress = Progress.from_json(_without_nul(text))
    except ContractError as error:
        logger.warning("progress refused: %s", error)
        metrics.refused_messages.labels("progress", "malformed").inc()
        return
    actions.record_progress(progress, timezone.now())


# A database that restarts must not cost a report: the node has thrown its copy away when the broker took it.
@app.task(
    name=TaskName.RECORD_DELIVERY.value,
    autoretry_for=(OperationalError, InterfaceError),
    max_retries=None,
    retry_backoff=1,
    retry_backoff_max=30,
)
def record_delivery(text: str) -> None:
    """Take a report."""
    try:
        delivery = Delivery.from_json(_without_nul(text))
    except ContractError as error:
        logger.warning("report refused: %s", error)
        metrics.refused_messages.labels("report", "malformed").inc()
        return
    actions.record_delivery(delivery, timezone.now())


def _without_nul(text: str) -> str:
    """PostgreSQL stores no NUL: one in what a submission printed must not cost the whole report."""
    return text.replace("\\u0000", "\\ufffd")
