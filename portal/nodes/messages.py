"""What the site sends to its nodes. Sending gives up within seconds when the broker is down."""

import logging
from collections.abc import Callable

from kombu.exceptions import KombuError

from evaluator.broker.queues import address_of, work_queue
from evaluator.contract import Assignment, BuildOrder, Cancellation, TaskName
from portal.celery import app

logger = logging.getLogger(__name__)


SendWork = Callable[..., None]
"""Something that carries work to the slots or builders of a node as `send_work` does, or raises `NotSent`."""


class NotSent(Exception):
    """The broker did not take a message."""


def send_work(node: str, work: Assignment | BuildOrder, /, *, valid_for_s: int) -> None:
    """Have `node` judge an evaluation, or compile it ahead of a slot; void when it reads it later than `valid_for_s`.

    Raises:
        NotSent: the broker did not take it.
    """
    name = TaskName.JUDGE if isinstance(work, Assignment) else TaskName.BUILD
    _send(node, name, work.to_json(), expires_s=valid_for_s)


def send_cancellation(node: str, cancellation: Cancellation) -> None:
    """Ask `node` to stop. When it cannot be reached its report will be refused anyway, so this never fails."""
    try:
        _send(node, TaskName.CANCEL, cancellation.to_json(), expires_s=600)
    except NotSent:
        logger.warning("could not send node %s the message to stop evaluation %s", node, cancellation.evaluation_id)


def _send(node: str, name: TaskName, text: str, *, expires_s: int) -> None:
    address = address_of(work_queue(node))
    try:
        app.send_task(name.value, args=(text,), expires=expires_s, ignore_result=True, **address)
    # AttributeError: kombu asks a channel for its connection, which the broker's end has just taken from it.
    except (KombuError, OSError, AttributeError) as error:
        raise NotSent(f"the broker did not accept {name.value} for node {node}: {error}") from error
