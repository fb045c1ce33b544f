"""Handing queued evaluations to free slots, and to builders, which compile them before a slot is free."""

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from evaluator import logs
from evaluator.contract import Assignment, Backend, BuildOrder, Mode, SandboxLevel, SlotState
from evaluator.hardware import profiles
from portal.core import metrics
from portal.nodes import actions, queries
from portal.nodes.models import Node, Slot
from portal.submissions import lifecycle, queue
from portal.submissions.models import Evaluation, State
from portal.submissions.queries import request_of

logger = logging.getLogger(__name__)

_LEVELS = (SandboxLevel.NONE, SandboxLevel.REDUCED, SandboxLevel.FULL)
CLAIMS_PER_LOOK = 5
BUILT_PER_SLOT = 8
"""At most this many evaluations of a priority or a higher one wait compiled for each slot of a node. Judging takes some
10 s, so they bridge a minute of compiling. Further evaluations stay in the queue, where every node can take them."""


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A free slot of a node, or a free builder, where `slot` is None; `slots` of the node's that judge its profile."""

    node: Node
    profile: str
    index: int
    slot: Slot | None = None
    slots: int = 1


def dispatch_once(now: datetime, *, send: actions.SendWork = actions.send_work) -> int:
    """Give every free slot its next evaluation; returns how many were sent. Safe to run in several processes."""
    free = queries.all_online_slots(now=now).filter(state=SlotState.FREE)
    places = (_Place(node=slot.node, profile=slot.profile, index=slot.index, slot=slot) for slot in free)
    return sum(_give_next(place, now, send) for place in places)


def build_once(now: datetime, *, send: actions.SendWork = actions.send_work) -> int:
    """Give every free builder its next evaluation; returns how many were sent. Safe to run in several processes."""
    slots = queries.all_online_slots(now=now).filter(node__builders__gt=0).order_by("node", "index")
    counts = Counter((slot.node, slot.profile) for slot in slots)
    return sum(_fill_builders(node, profile, number, now, send) for (node, profile), number in counts.items())


def _fill_builders(node: Node, profile: str, slots: int, now: datetime, send: actions.SendWork) -> int:
    used = set(node.evaluations.filter(state=State.BUILDING).values_list("slot_index", flat=True))
    free = (number for number in range(node.builders) if number not in used)
    places = (_Place(node=node, profile=profile, index=number, slots=slots) for number in free)
    # The first builder that gets nothing shows that there is no work for these slots now.
    return sum(1 for _ in takewhile(bool, (_give_next(place, now, send) for place in places)))


def _give_next(place: _Place, now: datetime, send: actions.SendWork) -> bool:
    # A claim fails where another dispatcher or a cancel was faster: then the next in the queue is tried, a few times.
    for evaluation in _waiting(place)[:CLAIMS_PER_LOOK]:
        if not _has_room(place, evaluation):
            return False
        lease = _claim(place, evaluation, now)
        if lease is not None:
            return _sent(place, evaluation, lease, send)
    return False


def _waiting(place: _Place) -> QuerySet[Evaluation]:
    """What may go to the place now, in the order of the queue.

    Where the node compiles ahead, what has to be compiled goes to a slot once it is.
    """
    node = place.node
    needs_no_compiler = Q(submission__backend=Backend.PYTORCH.value)
    if place.slot is None:
        is_ready = Q(state=State.QUEUED) & ~needs_no_compiler
    elif node.builders:
        is_ready = Q(state=State.BUILT, node=node) | (Q(state=State.QUEUED) & needs_no_compiler)
    else:
        is_ready = Q(state=State.BUILT, node=node) | Q(state=State.QUEUED)
    order = queue.queue_order(place.profile, owner_id=node.owner_id)
    return order.filter(is_ready & within_abilities(node, profile=place.profile))


def within_abilities(node: Node, *, profile: str) -> Q:
    """The condition on evaluations for `profile` that `node` can judge now."""
    able = Q(
        submission__backend__in=node.backends,
        # A node judges only the revision it was asked for; one that was not updated yet waits for its operator. A
        # revision is a hash over the problem's own files, so it belongs to one problem.
        problem_revision__in=list(node.revisions.values()),
    )
    level = _LEVELS.index(SandboxLevel(node.sandbox or SandboxLevel.NONE))
    is_safe = bool(node.sandbox) and level >= _LEVELS.index(profiles.get(profile).sandbox)
    return able if is_safe or settings.ACCEPT_WEAK_SANDBOX else able & ~Q(mode=Mode.RANKED)


def _has_room(place: _Place, evaluation: Evaluation) -> bool:
    """Whether the slot is still free, or the node may compile one more: evaluations later in the queue do not count."""
    of_node = place.node.evaluations
    if place.slot is not None:
        return not of_node.filter(slot_index=place.index, state__in=State.in_a_slot()).exists()
    goes_before = Q(priority__gt=evaluation.priority) | Q(priority=evaluation.priority, turn__lte=evaluation.turn)
    ahead = of_node.filter(goes_before, state__in=(State.BUILDING, State.BUILT), profile=place.profile)
    return ahead.count() < BUILT_PER_SLOT * place.slots


def _claim(place: _Place, evaluation: Evaluation, now: datetime) -> str | None:
    """Take `evaluation` for the place; the lease, or None where another dispatcher or a cancel was faster."""
    state = State.BUILDING if place.slot is None else State.LEASED
    with transaction.atomic():
        lease = lifecycle.assign(evaluation, place.node, place.index, state=state, now=now)
        if lease is not None and place.slot is not None:
            # Until the node's next heartbeat says otherwise; after a quick cancel the slot is still at work.
            Slot.objects.filter(pk=place.slot.pk, state=SlotState.FREE).update(state=SlotState.BUSY)
            queue.note_turn(evaluation)
    return lease


def _sent(place: _Place, evaluation: Evaluation, lease: str, send: actions.SendWork) -> bool:
    request, request_id = request_of(evaluation), evaluation.request_id
    work: Assignment | BuildOrder = (
        BuildOrder(lease=lease, request=request, request_id=request_id)
        if place.slot is None
        else Assignment(lease=lease, slot=place.index, request=request, request_id=request_id)
    )
    try:
        send(place.node.name, work, valid_for_s=settings.LEASE_SECONDS)
    except actions.NotSent as error:
        logger.warning("evaluation %s stays queued: %s", evaluation.pk, error)
        if lifecycle.take_back(evaluation, lease) and place.slot is not None:
            Slot.objects.filter(pk=place.slot.pk, state=SlotState.BUSY).update(state=SlotState.FREE)
        return False
    with logs.about(**evaluation.facts, lease=logs.lease_mark(lease), node=place.node.name):
        logger.info("sent to %s %d", "builder" if place.slot is None else "slot", place.index)
    metrics.dispatched.labels("build" if place.slot is None else "judge").inc()
    return True
