"""Handing queued evaluations to free slots."""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from evaluator import logs
from evaluator.contract import Assignment, Backend, EvaluationRequest, Mode, SandboxLevel, SlotState
from evaluator.hardware import profiles
from portal.core import metrics
from portal.nodes import messages
from portal.nodes.leases import new_lease
from portal.nodes.models import Node, Slot
from portal.nodes.queries import all_online_slots
from portal.submissions import queries
from portal.submissions.models import Evaluation, State
from portal.submissions.turns import note_turn

logger = logging.getLogger(__name__)

_LEVELS = (SandboxLevel.NONE, SandboxLevel.REDUCED, SandboxLevel.FULL)
CLAIMS_PER_LOOK = 5


def dispatch_once(now: datetime, *, send: messages.SendAssignment = messages.send_assignment) -> int:
    """Give every free slot its next evaluation; returns how many were sent. Safe to run in several processes."""
    return sum(_fill(slot, now, send) for slot in all_online_slots(now=now).filter(state=SlotState.FREE))


def _fill(slot: Slot, now: datetime, send: messages.SendAssignment) -> bool:
    # A claim fails where another dispatcher or a cancel was faster: then the next in the queue is tried, a few times.
    for evaluation in _judgeable_by(slot)[:CLAIMS_PER_LOOK]:
        if slot.node.evaluations.filter(slot_index=slot.index, state__in=queries.IN_PROGRESS).exists():
            return False
        lease = _claim(evaluation, slot, now)
        if lease is not None:
            return _sent(evaluation, slot, lease, send)
    return False


def _judgeable_by(slot: Slot) -> QuerySet[Evaluation]:
    """What may go to the slot now, in the order of the queue.

    Where the node compiles ahead, what has to be compiled comes once it is.
    """
    node = slot.node
    is_built = Q(state=State.BUILT, node=node)
    is_ready = Q(state=State.QUEUED)
    if node.builders:
        is_ready &= Q(submission__backend=Backend.PYTORCH.value)
    return judgeable_on(node, queries.queue_order(slot.profile, owner_id=node.owner_id), profile=slot.profile).filter(
        is_built | is_ready
    )


def judgeable_on(node: Node, waiting: QuerySet[Evaluation], *, profile: str) -> QuerySet[Evaluation]:
    """The evaluations of `waiting` (for `profile`) that `node` can judge now."""
    return waiting.filter(within_abilities(node, profile=profile))


def within_abilities(node: Node, *, profile: str) -> Q:
    """The condition on evaluations for `profile` that `node` can judge now."""
    able = Q(
        submission__backend__in=node.backends,
        # A node judges only the revision it was asked for; one that was not updated yet waits for its operator. A
        # revision is a hash over the problem's own files, so it belongs to one problem.
        problem_revision__in=list(node.revisions.values()),
    )
    return able if _may_judge_ranked(node, profile) else able & ~Q(mode=Mode.RANKED)


def _may_judge_ranked(node: Node, profile: str) -> bool:
    if settings.ACCEPT_WEAK_SANDBOX:
        return True
    demanded = profiles.get(profile).sandbox
    return bool(node.sandbox) and _LEVELS.index(SandboxLevel(node.sandbox)) >= _LEVELS.index(demanded)


def _claim(evaluation: Evaluation, slot: Slot, now: datetime) -> str | None:
    """Take `evaluation` for `slot`; the lease, or None where another dispatcher or a cancel was faster."""
    lease = new_lease(evaluation.pk, slot.node.name)
    try:
        with transaction.atomic():
            # Two dispatchers may have read the same queue: only one finds the row still there. And two may have
            # found the same slot free: the second breaks the constraint `one_evaluation_per_slot`.
            claimed = Evaluation.objects.filter(pk=evaluation.pk, state=evaluation.state).update(
                state=State.LEASED,
                lease=lease,
                node=slot.node,
                slot_index=slot.index,
                lease_expires_at=now + timedelta(seconds=settings.LEASE_SECONDS),
                deadline_at=now + timedelta(seconds=settings.EVALUATION_DEADLINE_SECONDS),
                started_at=None,
                unable_since=None,
                stage="",
                stage_detail="",
                stage_fraction=None,
                stage_since=now,
            )
            if claimed:
                # Until the node's next heartbeat says otherwise; after a quick cancel the slot is still at work.
                Slot.objects.filter(pk=slot.pk, state=SlotState.FREE).update(state=SlotState.BUSY)
                note_turn(evaluation)
    except IntegrityError:
        return None
    return lease if claimed else None


def _sent(evaluation: Evaluation, slot: Slot, lease: str, send: messages.SendAssignment) -> bool:
    assignment = Assignment(
        lease=lease,
        slot=slot.index,
        request=request_of(evaluation),
        request_id=evaluation.request_id,
    )
    try:
        send(slot.node.name, assignment, valid_for_s=settings.LEASE_SECONDS)
    except messages.NotSent as error:
        logger.warning("evaluation %s stays queued: %s", evaluation.pk, error)
        _give_back(evaluation, slot, lease)
        return False
    with logs.about(**evaluation.facts, lease=logs.lease_mark(lease), node=slot.node.name):
        logger.info("sent to slot %d", slot.index)
    metrics.dispatched.labels("judge").inc()
    return True


def request_of(evaluation: Evaluation) -> EvaluationRequest:
    """What a node is asked to judge."""
    submission = evaluation.submission
    return EvaluationRequest(
        evaluation_id=str(evaluation.pk),
        problem=submission.problem,
        revision=evaluation.problem_revision,
        source=submission.source.files,
        backend=Backend(submission.backend),
        profile=evaluation.profile,
        mode=Mode(evaluation.mode),
        sizes=(evaluation.size,) if evaluation.size else (),
        attempt=evaluation.attempt,
        earlier=queries.earlier_tries(evaluation),
    )


def _give_back(evaluation: Evaluation, slot: Slot, lease: str) -> None:
    # The message may have got through although sending failed, and progress may have moved the row. Then the lease is
    # in use. Only a row still waiting under this very lease goes back.
    returned = Evaluation.objects.filter(pk=evaluation.pk, state=State.LEASED, lease=lease).update(
        state=evaluation.state,
        node=evaluation.node,
        lease=None,
        slot_index=None,
        lease_expires_at=None,
        deadline_at=None,
    )
    if returned:
        Slot.objects.filter(pk=slot.pk, state=SlotState.BUSY).update(state=SlotState.FREE)
