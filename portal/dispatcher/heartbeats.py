"""Hearing nodes: a heartbeat keeps the leases of what its node judges or compiles, and says what is compiled."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from evaluator.contract import NodeStatus
from portal.nodes import actions as nodes
from portal.nodes.models import Node
from portal.nodes.queries import is_any_heartbeat_recent, offline_before
from portal.submissions.models import Evaluation, State
from portal.submissions.queries import HELD


def record_heartbeat(status: NodeStatus, now: datetime) -> bool:
    """Record one heartbeat; returns whether it counted."""
    return record_heartbeats([status], now) == 1


def record_heartbeats(statuses: Sequence[NodeStatus], now: datetime) -> int:
    """Note what nodes offer, and that what they run is alive; returns how many heartbeats counted.

    Of several from one node the last one counts. However many nodes there are, their leases are renewed by one
    statement, and so is the time at which they were seen. The first after a silence of all nodes renews every lease.
    """
    with transaction.atomic():
        # Other workers hear the same nodes. Locked in one order, and before the rows that belong to them, no two wait
        # for each other; dispatchers, too, go from evaluations to slots.
        found = nodes.nodes_for_update({status.node for status in statuses})
        accepted = [status for status in statuses if nodes.is_authentic(status, found.get(status.node))]
        heard = {found[status.node]: status for status in accepted}
        if not heard:
            return 0
        if not _is_any_recent(heard, now):
            _renew_all_leases(now)
        _extend_leases(heard, now)
        _note_built(heard, now)
        nodes.record_node_statuses(heard, now)
    return len(accepted)


def _is_any_recent(heard: Iterable[Node], now: datetime) -> bool:
    since = offline_before(now)
    is_one_of_these = any(node.seen_at is not None and node.seen_at >= since for node in heard)
    return is_one_of_these or is_any_heartbeat_recent(now)


def _note_built(heard: Mapping[Node, NodeStatus], now: datetime) -> None:
    """What was compiled waits for a slot of its node. A lease that was taken back or cancelled finds no row here."""
    leases = [lease for status in heard.values() for lease in status.built]
    if not leases:
        return
    # Nodes repeat it for minutes, so mostly nothing is found.
    building = Evaluation.objects.filter(lease__in=leases, state=State.BUILDING).values_list("node", flat=True)
    of_nodes = set(building)
    for node, status in heard.items():
        if node.pk not in of_nodes:
            continue
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


def _extend_leases(heard: Mapping[Node, NodeStatus], now: datetime) -> None:
    # The sweep may be taking one of these back right now: a row that no longer belongs to this node is left alone.
    # The deadline is not moved, so a judge that hangs for ever still ends.
    theirs = Q()
    for node, status in heard.items():
        running = [evaluation_id for evaluation_id in status.running if _is_uuid(evaluation_id)]
        if running:
            theirs |= Q(pk__in=running, node=node)
    if theirs:
        Evaluation.objects.filter(theirs, state__in=HELD).update(
            lease_expires_at=now + timedelta(seconds=settings.LEASE_SECONDS)
        )


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
