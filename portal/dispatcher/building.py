"""Handing queued evaluations to builders, which compile them before a slot is free."""

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q

from evaluator import logs
from evaluator.contract import BuildOrder
from portal.core import metrics
from portal.dispatcher.dispatching import CLAIMS_PER_LOOK, judgeable_on, request_of
from portal.nodes import messages
from portal.nodes.leases import new_lease
from portal.nodes.models import Node
from portal.nodes.queries import all_online_slots
from portal.submissions import queries
from portal.submissions.models import Evaluation, State

logger = logging.getLogger(__name__)

BUILT_PER_SLOT = 8
"""At most this many evaluations of a priority or a higher one wait compiled for each slot of a node. Judging takes some
10 s, so they bridge a minute of compiling. Further evaluations stay in the queue, where every node can take them."""


@dataclass(frozen=True, kw_only=True)
class _BuilderPool:
    """A node with builders, a profile of its slots that are online, and how many slots those are."""

    node: Node
    profile: str
    slots: int


def build_once(now: datetime, *, send: messages.SendBuildOrder = messages.send_build_order) -> int:
    """Give every free builder its next evaluation; returns how many were sent. Safe to run in several processes."""
    return sum(_fill(pool, now, send) for pool in _builder_pools(now))


def _builder_pools(now: datetime) -> list[_BuilderPool]:
    slots = all_online_slots(now=now).filter(node__builders__gt=0).order_by("node", "index")
    counts = Counter((slot.node, slot.profile) for slot in slots)
    return [_BuilderPool(node=node, profile=profile, slots=number) for (node, profile), number in counts.items()]


def _fill(pool: _BuilderPool, now: datetime, send: messages.SendBuildOrder) -> int:
    used = set(pool.node.evaluations.filter(state=State.BUILDING).values_list("slot_index", flat=True))
    free = (builder for builder in range(pool.node.builders) if builder not in used)
    # The first builder that gets nothing shows that there is no work for this pool now.
    return sum(1 for _ in takewhile(bool, (_give_next(pool, builder, now, send) for builder in free)))


def _give_next(pool: _BuilderPool, builder: int, now: datetime, send: messages.SendBuildOrder) -> bool:
    order = queries.build_order(pool.profile, owner_id=pool.node.owner_id)
    waiting = judgeable_on(pool.node, order, profile=pool.profile)
    # A claim fails where another dispatcher or a cancel was faster: then the next in the queue is tried, a few times.
    for evaluation in waiting[:CLAIMS_PER_LOOK]:
        if not _has_room(pool, evaluation):
            return False
        lease = _claim(evaluation, pool.node, builder, now)
        if lease is not None:
            return _sent(evaluation, pool.node, lease, send)
    return False


def _has_room(pool: _BuilderPool, evaluation: Evaluation) -> bool:
    """Whether the node may compile one more. Evaluations later in the queue do not count."""
    goes_before = Q(priority__gt=evaluation.priority) | Q(priority=evaluation.priority, turn__lte=evaluation.turn)
    ahead = pool.node.evaluations.filter(goes_before, state__in=(State.BUILDING, State.BUILT), profile=pool.profile)
    return ahead.count() < BUILT_PER_SLOT * pool.slots


def _claim(evaluation: Evaluation, node: Node, builder: int, now: datetime) -> str | None:
    """Take `evaluation` for a builder; the lease, or None where another dispatcher or a cancel was faster."""
    lease = new_lease(evaluation.pk, node.name)
    try:
        with transaction.atomic():
            # As for slots; here the constraint is `one_evaluation_per_builder`.
            claimed = Evaluation.objects.filter(pk=evaluation.pk, state=State.QUEUED).update(
                state=State.BUILDING,
                lease=lease,
                node=node,
                slot_index=builder,
                lease_expires_at=now + timedelta(seconds=settings.LEASE_SECONDS),
                deadline_at=now + timedelta(seconds=settings.EVALUATION_DEADLINE_SECONDS),
                started_at=None,
                stage="",
                stage_detail="",
                stage_fraction=None,
                stage_since=now,
            )
    except IntegrityError:
        return None
    return lease if claimed else None


def _sent(evaluation: Evaluation, node: Node, lease: str, send: messages.SendBuildOrder) -> bool:
    order = BuildOrder(
        lease=lease,
        request=request_of(evaluation),
        request_id=evaluation.request_id,
    )
    try:
        send(node.name, order, valid_for_s=settings.LEASE_SECONDS)
    except messages.NotSent as error:
        logger.warning("evaluation %s stays queued: %s", evaluation.pk, error)
        # The message may have got through all the same: then only a row still under this very lease goes back, and
        # what the builder says later finds no row.
        Evaluation.objects.filter(pk=evaluation.pk, state=State.BUILDING, lease=lease).update(
            state=State.QUEUED, lease=None, node=None, slot_index=None, lease_expires_at=None, deadline_at=None
        )
        return False
    with logs.about(**evaluation.facts, lease=logs.lease_mark(lease), node=node.name):
        logger.info("sent to be compiled")
    metrics.dispatched.labels("build").inc()
    return True
