"""Hearing a node: a heartbeat keeps the leases of what its node judges or compiles, and says what is compiled."""

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from evaluator.contract import NodeStatus
from portal.core import metrics
from portal.core.errors import Refusal
from portal.nodes import actions as nodes
from portal.nodes.models import Node
from portal.nodes.queries import is_any_heartbeat_recent, offline_before
from portal.submissions.models import Evaluation, State
from portal.submissions.queries import HELD


def record_heartbeat(node: Node, status: NodeStatus, now: datetime) -> None:
    """Note what `node` offers, and that what it runs is alive. The first after a silence of all renews every lease.

    Raises:
        Refusal: it names another node (422).
    """
    if status.node != node.name:
        metrics.refused_messages.labels("heartbeat", "forged name").inc()
        raise Refusal(
            field="node",
            value=status.node[:60],
            message=f"The heartbeat names another node than {node.name}, whose key it came with.",
            remedy="Send the heartbeats of a node under its own address, with its own key.",
        )
    was_silence = not _is_any_recent(node, now)
    with transaction.atomic():
        # The node's row comes first, as where it is revoked: so no two wait for each other.
        nodes.record_node_status(node, status, now)
        if was_silence:
            _renew_all_leases(now)
        _extend_leases(node, status, now)
        _note_built(node, status, now)
    metrics.heartbeats.inc()


def _is_any_recent(node: Node, now: datetime) -> bool:
    return (node.seen_at is not None and node.seen_at >= offline_before(now)) or is_any_heartbeat_recent(now)


def _note_built(node: Node, status: NodeStatus, now: datetime) -> None:
    """What was compiled waits for a slot of its node. A lease that was taken back or cancelled finds no row here."""
    if not status.built:
        return
    Evaluation.objects.filter(lease__in=list(status.built), node=node, state=State.BUILDING).update(
        state=State.BUILT,
        lease=None,
        slot_index=None,
        lease_expires_at=None,
        deadline_at=None,
        stage="",
        stage_detail=f"Compiled on {node.name}.",
        stage_fraction=None,
        stage_since=now,
    )


def _extend_leases(node: Node, status: NodeStatus, now: datetime) -> None:
    # The sweep may be taking one of these back right now: a row that no longer belongs to this node is left alone.
    # The deadline is not moved, so a judge that hangs for ever still ends.
    running = [evaluation_id for evaluation_id in status.running if _is_uuid(evaluation_id)]
    if running:
        Evaluation.objects.filter(pk__in=running, node=node, state__in=HELD).update(
            lease_expires_at=now + timedelta(seconds=settings.LEASE_SECONDS)
        )


def _renew_all_leases(now: datetime) -> None:
    # The site was away. The other nodes are about to be heard again, and the sweep must not take their work in the
    # moment between the first of them and the last.
    Evaluation.objects.filter(state__in=HELD).update(lease_expires_at=now + timedelta(seconds=settings.LEASE_SECONDS))


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
