"""Every state move of an evaluation. Each is a compare-and-set on its row: of two at once exactly one moves it.

Leases are unguessable, and signed, so that the site knows one that it gave out after it has ended. A report may come
again then, because the answer to the first one was lost: it has the same answer. A report under a lease that this site
never gave to its node is refused.
"""

import secrets
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.db import IntegrityError, transaction
from django.db.models import Case, F, QuerySet, Value, When

from evaluator.contract import Progress, Stage
from portal.core.errors import uuid_of
from portal.nodes.models import Node
from portal.submissions import hooks, quotas
from portal.submissions.models import Evaluation, State

_NO_STAGE: dict[str, Any] = {"stage": "", "stage_detail": "", "stage_fraction": None, "stage_since": None}
_NO_LEASE: dict[str, Any] = {"lease": None, "slot_index": None, "lease_expires_at": None, "deadline_at": None}
_IN_THE_QUEUE: dict[str, Any] = {"state": State.QUEUED, "node": None, "started_at": None} | _NO_LEASE | _NO_STAGE
_NONCE_BYTES = 15
"""120 bits: with its signature a lease has the 64 characters that its column holds."""


def new_lease(evaluation_id: object, node: str) -> str:
    return _signer(evaluation_id, node).sign(secrets.token_urlsafe(_NONCE_BYTES))


def was_given(lease: str, evaluation_id: object, node: str) -> bool:
    """Whether this site has ever given `lease` on the evaluation to `node`."""
    try:
        _signer(evaluation_id, node).unsign(lease)
    except BadSignature:
        return False
    return True


def _signer(evaluation_id: object, node: str) -> Signer:
    return Signer(salt=f"lease of {node} on {evaluation_id}")


def lease_end(now: datetime) -> datetime:
    """When a lease that is given or extended now ends."""
    return now + timedelta(seconds=settings.LEASE_SECONDS)


def under_lease(evaluation_id: str, lease: str) -> QuerySet[Evaluation]:
    """The evaluation, while `lease` is valid for it."""
    return Evaluation.objects.filter(pk=uuid_of(evaluation_id), lease=lease, state__in=State.under_lease())


def _as_read(evaluation: Evaluation) -> QuerySet[Evaluation]:
    # A report, a cancel or a heartbeat may come in at this moment: only a row that still carries the same lease with
    # the same expiry is moved.
    return Evaluation.objects.filter(
        pk=evaluation.pk,
        lease=evaluation.lease,
        lease_expires_at=evaluation.lease_expires_at,
        state__in=State.under_lease(),
    )


def assign(evaluation: Evaluation, node: Node, index: int, *, state: State, now: datetime) -> str | None:
    """Give `evaluation` to a slot of `node` (LEASED) or to a builder (BUILDING); the lease, None if another was faster.

    Two dispatchers may have read the same queue: only one finds the row still there. And two may have found the same
    slot free: the second breaks the constraint `one_evaluation_per_slot`, or `one_evaluation_per_builder`.
    """
    lease = new_lease(evaluation.pk, node.name)
    values = _NO_STAGE | {
        "state": state,
        "lease": lease,
        "node": node,
        "slot_index": index,
        "lease_expires_at": lease_end(now),
        "deadline_at": now + timedelta(seconds=settings.EVALUATION_DEADLINE_SECONDS),
        "started_at": None,
        "unable_since": None,
        "stage_since": now,
    }
    try:
        with transaction.atomic():
            moved = Evaluation.objects.filter(pk=evaluation.pk, state=evaluation.state).update(**values)
    except IntegrityError:
        return None
    return lease if moved else None


def take_back(evaluation: Evaluation, lease: str) -> bool:
    """Make `evaluation` again what it was when it was read, before `assign` gave it `lease`; whether it moved.

    The message may have got through although sending failed. If the node has begun in its slot, the lease is in use and
    the row stays. What a builder says later finds no row.
    """
    moved = Evaluation.objects.filter(pk=evaluation.pk, lease=lease, state__in=(State.LEASED, State.BUILDING))
    return bool(moved.update(state=evaluation.state, node=evaluation.node_id, **_NO_LEASE))


def begin_offline(evaluation: Evaluation, node: Node, *, attempt: int, started_at: datetime) -> str | None:
    """Have what waits judged by `node` as its try `attempt`; the lease, None where it waits no more."""
    lease = new_lease(evaluation.pk, node.name)
    moved = Evaluation.objects.filter(pk=evaluation.pk, state__in=State.without_a_node()).update(
        state=State.RUNNING,
        lease=lease,
        node=node,
        slot_index=None,
        attempt=attempt,
        started_at=started_at,
        unable_since=None,
    )
    return lease if moved else None


def note_progress(progress: Progress, now: datetime, **values: Any) -> bool:
    """Note how far a judge is, with `values`, and extend its lease; returns whether the lease was still good."""
    # First contact starts the clock that the page shows; later progress does not reset it.
    is_first = When(state=State.LEASED, then=Value(State.RUNNING.value))
    stage = progress.stage.value
    return bool(
        under_lease(progress.evaluation_id, progress.lease).update(
            state=Case(is_first, default=F("state")),
            started_at=Case(When(state=State.LEASED, then=Value(now)), default=F("started_at")),
            stage_since=Case(When(stage=stage, then=F("stage_since")), default=Value(now)),
            stage=stage,
            stage_detail=progress.detail[:300],
            stage_fraction=progress.fraction,
            lease_expires_at=lease_end(now),
            **values,
        )
    )


def note_running(node: Node, evaluations: Iterable[uuid.UUID], now: datetime) -> None:
    """Extend the leases of what `node` says that it has. That it took it is then known, as by its first progress."""
    of_node = Evaluation.objects.filter(pk__in=list(evaluations), node=node, state__in=State.under_lease())
    stage = Case(When(stage="", then=Value(Stage.PREPARING.value)), default=F("stage"))
    of_node.update(lease_expires_at=lease_end(now), stage=stage)


def note_built(node: Node, leases: Iterable[str], now: datetime) -> int:
    """Have what `node` has compiled under these leases wait for one of its slots; returns how many.

    A lease that was taken back or cancelled finds no row here.
    """
    values = _NO_LEASE | _NO_STAGE | {"stage_detail": f"Compiled on {node.name}.", "stage_since": now}
    building = Evaluation.objects.filter(lease__in=list(leases), node=node, state=State.BUILDING)
    return building.update(state=State.BUILT, **values)


def queue_again(evaluation: Evaluation, *, attempt: int, detail: str, **values: Any) -> bool:
    """Queue what a node has under the lease that was read as try number `attempt`, with `values`; whether it moved."""
    values |= _IN_THE_QUEUE | {"stage_detail": detail[:300]}
    return bool(_as_read(evaluation).update(attempt=attempt, **values))


def release_node(node: Node) -> int:
    """Queue again all that `node` has or has compiled; returns how many. None loses a try."""
    values = _IN_THE_QUEUE | {"stage_detail": "Its node was taken out of service."}
    return Evaluation.objects.filter(node=node, state__in=(*State.under_lease(), State.BUILT)).update(**values)


def release_built(stranded: QuerySet[Evaluation]) -> int:
    """Queue again those of `stranded` that wait compiled; returns how many. None loses a try."""
    return stranded.filter(state=State.BUILT).update(state=State.QUEUED, node=None, stage_detail="", stage_since=None)


def follow_revision(evaluation: Evaluation, revision: str) -> bool:
    """Have what waits judged by `revision` of its problem, and compiled anew; returns whether it moved.

    Another dispatcher may send it at this moment under the old revision: what has left the queue stays as it is.
    """
    waiting = Evaluation.objects.filter(pk=evaluation.pk, state__in=State.without_a_node())
    unchanged = waiting.filter(problem_revision=evaluation.problem_revision)
    return bool(unchanged.update(problem_revision=revision, state=State.QUEUED, node=None))


def finish(evaluation: Evaluation, *, now: datetime, **outcome: Any) -> bool:
    """End what a node has under the lease that was read, with its verdict; False if a cancel or a sweep came first."""
    return _end(evaluation, _as_read(evaluation), state=State.FINISHED, finished_at=now, **outcome)


def end_unserved(evaluation: Evaluation, *, now: datetime, message: str) -> bool:
    """End what no node can judge; False if a node has come back and taken it."""
    waiting = Evaluation.objects.filter(pk=evaluation.pk, state=State.QUEUED)
    values = {"finished_at": now, "message": message, "stage_detail": "", "stage_since": None}
    return _end(evaluation, waiting, state=State.UNSERVED, **values)


def cancel(evaluation: Evaluation, *, now: datetime) -> bool:
    """End what has not ended; False if a report or another cancel came first."""
    unfinished = Evaluation.objects.filter(pk=evaluation.pk, state__in=State.unfinished())
    return _end(evaluation, unfinished, state=State.CANCELLED, finished_at=now)


def _end(evaluation: Evaluation, found: QuerySet[Evaluation], **values: Any) -> bool:
    """Store the end of `found`, the row of `evaluation` if it may end, and tell the apps above in one transaction."""
    with transaction.atomic():
        if not found.update(lease=None, lease_expires_at=None, stage_fraction=None, **values):
            return False
        ended = Evaluation.objects.select_related("submission").get(pk=evaluation.pk)
        quotas.settle(ended)
        hooks.evaluation_ended.send(ended)
    return True
