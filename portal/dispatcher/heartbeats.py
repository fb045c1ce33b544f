"""Hearing a node: a heartbeat keeps the leases of what its node judges or compiles, and says what is compiled."""

from datetime import datetime

from django.db import transaction

from evaluator.contract import SCHEMA_VERSION, VERSION, NodeStatus
from portal.core import metrics
from portal.core.errors import Refusal
from portal.core.requests import uuid_of
from portal.nodes import actions as nodes
from portal.nodes.models import Node
from portal.nodes.queries import offline_before
from portal.submissions import lifecycle
from portal.submissions.models import Evaluation, State


def record_heartbeat(node: Node, status: NodeStatus, now: datetime) -> None:
    """Note what `node` offers, and that what it runs is alive. The first after a silence of all renews every lease.

    Raises:
        Refusal: it names another node (422), or node and site do not understand each other's messages (409).
    """
    nodes.check_name(node, status.node, kind="heartbeat")
    if (schema := status.schema_version) != SCHEMA_VERSION:
        raise Refusal(
            "schema_version",
            schema,
            f"Node {node} (version {status.environment.get('pkb', 'unknown')}) writes schema {schema}, and this site "
            f"(version {VERSION}) reads schema {SCHEMA_VERSION}.",
            f"Install the newer version on the {'site' if schema > SCHEMA_VERSION else 'node'}.",
            status=409,
        )
    since = offline_before(now)
    is_recent = node.seen_at is not None and node.seen_at >= since
    was_silence = not is_recent and not Node.objects.filter(seen_at__gte=since).exists()
    with transaction.atomic():
        # The node's row comes first, as where it is revoked: so no two wait for each other.
        nodes.record_node_status(node, status, now)
        if was_silence:
            # The site was away. The other nodes are about to be heard again, and the sweep must not take their work in
            # the moment between the first of them and the last.
            under_lease = Evaluation.objects.filter(state__in=State.under_lease())
            under_lease.update(lease_expires_at=lifecycle.lease_end(now))
        # The sweep may be taking one of these back right now: a row that no longer belongs to this node is left alone.
        # The deadline is not moved, so a judge that hangs for ever still ends.
        if running := [key for key in map(uuid_of, status.running) if key is not None]:
            lifecycle.note_running(node, running, now)
        lifecycle.note_built(node, status.built, now)
    metrics.heartbeats.inc()
