"""Ending leases whose node has gone silent, so that nothing stays "running" for ever."""

import logging
from collections.abc import Mapping
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet

from evaluator import logs
from evaluator.contract import Cancellation, Verdict
from portal.core import metrics
from portal.nodes import messages
from portal.nodes.models import Node
from portal.nodes.queries import all_online_slots
from portal.submissions import queries
from portal.submissions.hooks import EvaluationEnded, evaluation_ended
from portal.submissions.models import Evaluation, State
from problems import registry

logger = logging.getLogger(__name__)

_WITHOUT_A_LEASE = (State.QUEUED, State.BUILT)


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
    outdated = Evaluation.objects.filter(state__in=_WITHOUT_A_LEASE).exclude(problem_revision__in=current.values())
    return sum(_renew(evaluation, current) for evaluation in outdated.select_related("submission"))


def _renew(evaluation: Evaluation, current: Mapping[str, str]) -> int:
    revision = current.get(evaluation.submission.problem)
    if revision is None:
        return 0
    # Another dispatcher may send it at this moment under the old revision: what has left the queue stays as it is.
    return Evaluation.objects.filter(
        pk=evaluation.pk, state__in=_WITHOUT_A_LEASE, problem_revision=evaluation.problem_revision
    ).update(problem_revision=revision, state=State.QUEUED, node=None)


def release_built(now: datetime) -> int:
    """Queue again what is compiled on a node that has no slot for it any more; returns how many. None loses a try."""
    places = all_online_slots(now=now).filter(profile=OuterRef("profile"), node=OuterRef("node"))
    stranded = Evaluation.objects.filter(state=State.BUILT).exclude(Exists(places))
    return stranded.update(state=State.QUEUED, node=None, stage_detail="", stage_since=None)


def _lost(now: datetime) -> QuerySet[Evaluation]:
    # A lease that ran out while no node sent a heartbeat proves nothing. The site itself may have been down, and the
    # nodes are about to be heard again. No other node could take the work meanwhile either.
    heard = Node.objects.aggregate(last=Max("seen_at"))["last"] or now
    return Evaluation.objects.filter(state__in=queries.HELD).filter(
        Q(lease_expires_at__lt=min(now, heard)) | Q(deadline_at__lt=now)
    )


def _take_back(evaluation: Evaluation, now: datetime) -> bool:
    # A report, a cancel or a heartbeat may come in at this moment: only a row that still carries the same lease
    # with the same expiry is moved.
    unchanged = Evaluation.objects.filter(
        pk=evaluation.pk,
        lease=evaluation.lease,
        lease_expires_at=evaluation.lease_expires_at,
        state__in=queries.HELD,
    )
    lease_gone = {"lease": None, "lease_expires_at": None, "stage_fraction": None}
    if evaluation.attempt < settings.MAX_TRIES:
        moved = unchanged.update(
            state=State.QUEUED,
            attempt=F("attempt") + 1,
            node=None,
            slot_index=None,
            deadline_at=None,
            started_at=None,
            stage="",
            stage_detail=f"Try {evaluation.attempt} was lost: its node stopped responding.",
            stage_since=None,
            **lease_gone,
        )
    else:
        with transaction.atomic():
            moved = unchanged.update(
                state=State.FINISHED,
                finished_at=now,
                verdict=Verdict.JUDGE_FAILURE.value,
                message=(
                    f"The node stopped responding in each of {settings.MAX_TRIES} tries. This is a failure of ours, "
                    "not of the submission. Submit it again or ask the operator."
                ),
                **lease_gone,
            )
            if moved:
                ended = Evaluation.objects.select_related("submission").get(pk=evaluation.pk)
                evaluation_ended.send(EvaluationEnded(evaluation=ended))
    if moved and evaluation.node is not None and evaluation.lease is not None:
        with logs.about(**evaluation.facts, lease=logs.lease_mark(evaluation.lease), node=evaluation.node.name):
            logger.warning("evaluation %s lost its node in try %d", evaluation.pk, evaluation.attempt)
        metrics.failed_tries.labels(evaluation.profile, "lease lost").inc()
        messages.send_cancellation(
            evaluation.node.name, Cancellation(lease=evaluation.lease, evaluation_id=str(evaluation.pk))
        )
    return bool(moved)
