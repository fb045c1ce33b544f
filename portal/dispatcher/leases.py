"""Leases: a node's heartbeats keep them; its silence or the loss of its key ends them. So ends what no node can judge.

Nothing stays "running" or in the queue for ever.
"""

import logging
from collections.abc import Collection
from datetime import datetime, timedelta
from functools import reduce
from operator import or_

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.template.loader import render_to_string

from evaluator import logs
from evaluator.contract import SCHEMA_VERSION, VERSION, Cancellation, NodeStatus, Verdict
from evaluator.hardware.profiles import profiles
from portal.catalog.queries import paused_slugs
from portal.core import metrics
from portal.core.errors import Refusal, uuid_of
from portal.dispatcher.assign import within_abilities
from portal.nodes import actions, queries
from portal.nodes import actions as nodes
from portal.nodes.models import Node
from portal.submissions import lifecycle, queue
from portal.submissions.models import Evaluation, ProfileState, State
from problems import registry


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
    since = queries.offline_before(now)
    is_recent = node.seen_at is not None and node.seen_at >= since
    was_silence = not is_recent and not Node.objects.filter(seen_at__gte=since).exists()
    with transaction.atomic():
        # The node's row comes first, as where it is revoked: so no two wait for each other.
        nodes.record_node_status(node, status, now)
        if was_silence:
            # The site was away. The other nodes are about to be heard again, and the sweep must not take their work in
            # the moment between the first of them and the last.
            Evaluation.objects.filter(state__in=State.under_lease()).update(lease_expires_at=lifecycle.lease_end(now))
        # The sweep may be taking one of these back right now: a row that no longer belongs to this node is left alone.
        # The deadline is not moved, so a judge that hangs for ever still ends.
        if running := [key for key in map(uuid_of, status.running) if key is not None]:
            lifecycle.note_running(node, running, now)
        lifecycle.note_built(node, status.built, now)
    metrics.heartbeats.inc()


logger = logging.getLogger(__name__)

LOOK_EVERY = timedelta(seconds=60)
_GAP = timedelta(minutes=10)
"""After so long without a look nobody knows who was able meanwhile: the waiting begins anew."""
ENDED_PER_LOOK = 200
FREE_LOSSES = 10
"""So many assignments of an evaluation may be lost at no cost: one that no node can read must not go out for ever."""


def sweep(now: datetime) -> int:
    """Take back every lease that ran out or passed its deadline; returns how many.

    What a node took is queued again as the next try, and ends as JUDGE_FAILURE after the last one. What no node has
    said that it took, as where the broker lost it, keeps its try.
    """
    return sum(_take_back(evaluation, now) for evaluation in _lost(now).select_related("node"))


def renew_revisions() -> int:
    """Let waiting evaluations follow their problem to the revision that the site now has; returns how many moved.

    After an update of the problems no node has the old revision any more, and nothing was judged on it yet.
    """
    current = {problem.slug: registry.revision(problem.slug) for problem in registry.problems()}
    outdated = Evaluation.objects.filter(state__in=State.without_a_node()).exclude(
        problem_revision__in=current.values()
    )
    known = outdated.filter(submission__problem__in=current).select_related("submission")
    return sum(lifecycle.follow_revision(each, current[each.submission.problem]) for each in known)


def release_built(now: datetime) -> int:
    """Queue again what is compiled on a node that has no slot for it any more; returns how many. None loses a try."""
    places = queries.all_online_slots(now=now).filter(profile=OuterRef("profile"), node=OuterRef("node"))
    return lifecycle.release_built(Evaluation.objects.exclude(Exists(places)))


def revoke(name: str, *, now: datetime) -> int:
    """Revoke a node's key; returns the number of its evaluations, which are queued again and lose no try.

    What it has judged stays as it was found, under its name: an operator who distrusts that has it judged again.

    Raises:
        Refusal: there is no such node, or it was revoked before (404).
    """
    with transaction.atomic():
        return lifecycle.release_node(nodes.revoke_node(name, now=now))


def _lost(now: datetime) -> QuerySet[Evaluation]:
    # A lease that ran out while no node sent a heartbeat proves nothing. The site itself may have been down, and the
    # nodes are about to be heard again. No other node could take the work meanwhile either.
    heard = Node.objects.aggregate(last=Max("seen_at"))["last"] or now
    return Evaluation.objects.filter(state__in=State.under_lease()).filter(
        Q(lease_expires_at__lt=min(now, heard)) | Q(deadline_at__lt=now)
    )


def _take_back(evaluation: Evaluation, now: datetime) -> bool:
    is_taken = bool(evaluation.stage)
    if not is_taken and evaluation.losses < FREE_LOSSES:
        detail = "It was lost on its way to a node, which costs no try."
        moved = lifecycle.queue_again(
            evaluation, attempt=evaluation.attempt, detail=detail, losses=evaluation.losses + 1
        )
    elif evaluation.attempt < settings.MAX_TRIES:
        detail = f"Try {evaluation.attempt} was lost: its node stopped responding."
        moved = lifecycle.queue_again(evaluation, attempt=evaluation.attempt + 1, detail=detail)
    else:
        moved = lifecycle.finish(
            evaluation,
            now=now,
            verdict=Verdict.JUDGE_FAILURE.value,
            message=(
                f"The node stopped responding in each of {settings.MAX_TRIES} tries. This is a failure of ours, "
                "not of the submission. Submit it again or ask the operator."
            ),
        )
    if moved and evaluation.node is not None and evaluation.lease is not None:
        with logs.about(**evaluation.facts, lease=logs.lease_mark(evaluation.lease), node=evaluation.node.name):
            what = "its node" if is_taken else "its assignment"
            logger.warning("evaluation %s lost %s in try %d", evaluation.pk, what, evaluation.attempt)
        metrics.failed_tries.labels(evaluation.profile, "lease lost" if is_taken else "assignment lost").inc()
        actions.send_cancellation(
            evaluation.node.name, Cancellation(lease=evaluation.lease, evaluation_id=str(evaluation.pk))
        )
    return moved


def look_at_nodes(now: datetime) -> bool:
    """Once a minute, note which profiles are served and what waits for no node; returns whether it was time."""
    known = ProfileState.objects.filter(profile__in=profiles())
    if known.filter(looked_at__gt=now - LOOK_EVERY).count() == len(profiles()):
        return False
    waiting = Evaluation.objects.filter(state=State.QUEUED)
    if ProfileState.objects.filter(looked_at__lt=now - _GAP).exists():
        waiting.exclude(unable_since=None).update(unable_since=None)
    ProfileState.objects.bulk_create(
        (ProfileState(profile=name, looked_at=now) for name in profiles()), ignore_conflicts=True
    )
    served = set(queries.online_slots(now=now).order_by().values_list("profile", flat=True))
    ProfileState.objects.filter(profile__in=served).update(served_at=now)
    ProfileState.objects.update(looked_at=now)
    able = _within_somebodys_abilities(now)
    waiting.filter(able).exclude(unable_since=None).update(unable_since=None)
    waiting.filter(unable_since=None).exclude(able).update(unable_since=now)
    return True


def _within_somebodys_abilities(now: datetime) -> Q:
    """The condition on evaluations that a node online could judge; a guest judges its owner's alone."""
    offers = {(slot.node_id, slot.profile): slot.node for slot in queries.all_online_slots(now=now)}
    conditions = (
        Q(profile=profile, node_owner=node.owner_id) & within_abilities(node, profile=profile)
        for (_, profile), node in offers.items()
    )
    return reduce(or_, conditions, Q(pk__in=[]))


def end_unserved(now: datetime) -> int:
    """End what no node online could judge for `UNSERVED_HOURS` on end; returns how many.

    What an operator has paused waits on, and hours in which no dispatcher looked count for nobody.
    """
    served = set(ProfileState.objects.filter(served_at__gte=now - _GAP).values_list("profile", flat=True))
    ended = [
        evaluation
        for evaluation in _unserved(now)
        if lifecycle.end_unserved(evaluation, now=now, message=_message(evaluation, served))
    ]
    for evaluation in ended:
        logger.info("evaluation %s ended unjudged: no node can judge it on %s", evaluation.pk, evaluation.profile)
    return len(ended)


def _unserved(now: datetime) -> QuerySet[Evaluation]:
    since = now - timedelta(hours=settings.UNSERVED_HOURS)
    waiting = Evaluation.objects.filter(state=State.QUEUED, unable_since__lt=since)
    # A guest's owner has no switch of a profile: the operator's is for the site's own nodes.
    open_ones = waiting.exclude(node_owner=None, profile__in=queue.paused_profiles()).exclude(
        submission__problem__in=paused_slugs()
    )
    return open_ones.select_related("submission").order_by("queued_at")[:ENDED_PER_LOOK]


def _message(evaluation: Evaluation, served: Collection[str]) -> str:
    is_served = evaluation.profile in served and evaluation.node_owner_id is None
    context = {"evaluation": evaluation, "hours": f"{settings.UNSERVED_HOURS:.0f}", "is_served": is_served}
    return " ".join(render_to_string("submissions/unserved.txt", context).split())
