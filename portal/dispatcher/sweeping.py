"""Ending leases whose node has gone silent or was revoked, so that nothing stays "running" for ever."""

import logging
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from evaluator import logs
from evaluator.contract import Cancellation, Verdict
from portal.core import metrics
from portal.nodes import messages
from portal.nodes.actions import revoke_node
from portal.nodes.models import Node
from portal.nodes.queries import all_online_slots
from portal.submissions import lifecycle
from portal.submissions.models import Evaluation, State
from problems import registry

logger = logging.getLogger(__name__)


def sweep(now: datetime) -> int:
    """Take back every lease that ran out or passed its deadline; returns how many.

    The work is queued again as the next try; after the last try it ends as JUDGE_FAILURE.
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
    places = all_online_slots(now=now).filter(profile=OuterRef("profile"), node=OuterRef("node"))
    return lifecycle.release_built(Evaluation.objects.exclude(Exists(places)))


def revoke(name: str, *, now: datetime) -> int:
    """Revoke a node's key; returns the number of its evaluations, which are queued again and lose no try.

    What it has judged stays as it was found, under its name: an operator who distrusts that has it judged again.

    Raises:
        Refusal: there is no such node, or it was revoked before (404).
    """
    with transaction.atomic():
        node = revoke_node(name, now=now)
        return lifecycle.release_node(node)


def _lost(now: datetime) -> QuerySet[Evaluation]:
    # A lease that ran out while no node sent a heartbeat proves nothing. The site itself may have been down, and the
    # nodes are about to be heard again. No other node could take the work meanwhile either.
    heard = Node.objects.aggregate(last=Max("seen_at"))["last"] or now
    return Evaluation.objects.filter(state__in=State.under_lease()).filter(
        Q(lease_expires_at__lt=min(now, heard)) | Q(deadline_at__lt=now)
    )


def _take_back(evaluation: Evaluation, now: datetime) -> bool:
    if evaluation.attempt < settings.MAX_TRIES:
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
            logger.warning("evaluation %s lost its node in try %d", evaluation.pk, evaluation.attempt)
        metrics.failed_tries.labels(evaluation.profile, "lease lost").inc()
        messages.send_cancellation(
            evaluation.node.name, Cancellation(lease=evaluation.lease, evaluation_id=str(evaluation.pk))
        )
    return moved
