"""Every write to nodes and slots."""

import hashlib
import hmac
import logging
import re
import secrets
import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction

from evaluator.contract import NodeStatus
from portal.nodes.models import Node, Slot
from portal.nodes.queries import heard_since
from portal.refusals import Refusal
from portal.submissions.models import Evaluation
from portal.submissions.queries import IN_PROGRESS

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


def record_node_status(status: NodeStatus, now: datetime) -> bool:
    """Note a heartbeat: what the node offers, and that what it runs is alive; returns whether it counted.

    The first after a silence of all nodes renews every lease.
    """
    node = Node.objects.filter(name=status.node).first()
    # The comparison takes the same time however much of the key is right, and an unknown name takes it too.
    known = node.key_digest if node is not None else _digest("")
    if not hmac.compare_digest(known, _digest(status.key)) or node is None:
        logger.warning("heartbeat with a wrong key for node %s; ignored", status.node)
        return False
    with transaction.atomic():
        if not Node.objects.filter(seen_at__gte=heard_since(now)).exists():
            _renew_all_leases(now)
        Node.objects.filter(pk=node.pk).update(
            seen_at=now,
            sandbox=status.sandbox.value,
            backends=[backend.value for backend in status.backends],
            revisions=status.revisions,
            environment=status.environment,
        )
        _record_slots(node, status)
        _extend_leases(node, status, now)
    return True


def _record_slots(node: Node, status: NodeStatus) -> None:
    for slot in status.slots:
        Slot.objects.update_or_create(
            node=node,
            index=slot.index,
            defaults={"profile": slot.profile, "state": slot.state.value, "note": slot.note[:300]},
        )
    node.slots.exclude(index__in=[slot.index for slot in status.slots]).delete()


def _extend_leases(node: Node, status: NodeStatus, now: datetime) -> None:
    # The sweep may be taking one of these back right now: a row that no longer belongs to this node is left alone.
    # The deadline is not moved, so a judge that hangs for ever still ends.
    Evaluation.objects.filter(
        pk__in=[running for running in status.running if _is_uuid(running)],
        node=node,
        state__in=IN_PROGRESS,
    ).update(lease_expires_at=now + timedelta(seconds=settings.LEASE_SECONDS))


def _renew_all_leases(now: datetime) -> None:
    # The broker was away, or the site itself: the other nodes are about to be heard again, and the sweep must not take
    # their work in the moment between the first of them and the last.
    Evaluation.objects.filter(state__in=IN_PROGRESS).update(
        lease_expires_at=now + timedelta(seconds=settings.LEASE_SECONDS)
    )


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _new_key() -> str:
    return f"pkn_{secrets.token_urlsafe(32)}"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
