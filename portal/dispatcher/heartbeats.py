"""Hearing nodes: a heartbeat keeps the leases of what its node judges or compiles, and says what is compiled."""

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from evaluator.contract import NodeStatus
from portal.nodes import actions as nodes
from portal.nodes.models import Node
from portal.nodes.queries import is_any_heartbeat_recent
from portal.submissions.models import Evaluation, State
from portal.submissions.queries import HELD


def record_heartbeat(status: NodeStatus, now: datetime) -> bool:
    """Note what a node offers, and that what it runs is alive; returns whether it counted.

    The first after a silence of all nodes renews every lease.
    """
    node = nodes.authenticated(status)
    if node is None:
        return False
    with transaction.atomic():
        if not is_any_heartbeat_recent(now):
            _renew_all_leases(now)
        nodes.record_node_status(node, status, now)
        _extend_leases(node, status.running, now)
        _note_built(node, status.built, now)
    return True


def _note_built(node: Node, leases: Iterable[str], now: datetime) -> None:
    """What was compiled waits for a slot of its node. A lease that was taken back or cancelled finds no row here."""
    Evaluation.objects.filter(lease__in=list(leases), node=node, state=State.BUILDING).update(
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


def _extend_leases(node: Node, running: Iterable[str], now: datetime) -> None:
    # The sweep may be taking one of these back right now: a row that no longer belongs to this node is left alone.
    # The deadline is not moved, so a judge that hangs for ever still ends.
    Evaluation.objects.filter(
        pk__in=[evaluation_id for evaluation_id in running if _is_uuid(evaluation_id)],
        node=node,
        state__in=HELD,
    ).update(lease_expires_at=now + timedelta(seconds=settings.LEASE_SECONDS))


def _renew_all_leases(now: datetime) -> None:
    # The broker was away, or the site itself. The other nodes are about to be heard again, and the sweep must not take
    # their work in the moment between the first of them and the last.
    Evaluation.objects.filter(state__in=HELD).update(lease_expires_at=now + timedelta(seconds=settings.LEASE_SECONDS))


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
