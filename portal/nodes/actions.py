"""Every write to nodes and slots."""

import hashlib
import hmac
import logging
import re
import secrets
from datetime import datetime

from django.db import IntegrityError, transaction

from evaluator.contract import NodeStatus
from portal.nodes.models import Node, Slot
from portal.refusals import Refusal

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,58}[a-z0-9])?")


def register_node(name: str) -> str:
    """Let a machine called `name` take work; returns its key, which nobody can read again.

    Raises:
        Refusal: the name is malformed, or taken (409).
    """
    if not _NAME.fullmatch(name):
        raise Refusal(
            field="name",
            value=name,
            message="This cannot be a node's name.",
            remedy="Use lower-case letters, digits and inner hyphens, at most 60.",
        )
    key = _new_key()
    try:
        with transaction.atomic():
            Node.objects.create(name=name, key_digest=_digest(key))
    except IntegrityError as error:
        raise Refusal(
            field="name",
            value=name,
            message="There is a node of this name.",
            remedy="Choose another name, or replace its key with --new-key.",
            status=409,
        ) from error
    return key


def replace_key(name: str) -> str:
    """Give a node a new key; the old one is void at once.

    Raises:
        Refusal: there is no such node (404).
    """
    key = _new_key()
    if not Node.objects.filter(name=name).update(key_digest=_digest(key)):
        raise Refusal(
            field="name", value=name, message="There is no such node.", remedy="Register it first.", status=404
        )
    return key


def authenticated(status: NodeStatus) -> Node | None:
    """The node that a heartbeat says it comes from; None, and a warning logged, where its key is not that one's."""
    node = Node.objects.filter(name=status.node).first()
    # The comparison takes the same time however much of the key is right, and an unknown name takes it too.
    known = node.key_digest if node is not None else _digest("")
    if not hmac.compare_digest(known, _digest(status.key)) or node is None:
        logger.warning("heartbeat with a wrong key for node %s; ignored", status.node)
        return None
    return node


def record_node_status(node: Node, status: NodeStatus, now: datetime) -> None:
    """Note that `node` was heard at `now`, what it offers, and the state of its slots; runs in a transaction."""
    Node.objects.filter(pk=node.pk).update(
        seen_at=now,
        sandbox=status.sandbox.value,
        backends=[backend.value for backend in status.backends],
        revisions=status.revisions,
        environment=status.environment,
        builders=status.builders,
    )
    _record_slots(node, status)


def _record_slots(node: Node, status: NodeStatus) -> None:
    for slot in status.slots:
        Slot.objects.update_or_create(
            node=node,
            index=slot.index,
            defaults={"profile": slot.profile, "state": slot.state.value, "note": slot.note[:300]},
        )
    node.slots.exclude(index__in=[slot.index for slot in status.slots]).delete()


def _new_key() -> str:
    return f"pkn_{secrets.token_urlsafe(32)}"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
