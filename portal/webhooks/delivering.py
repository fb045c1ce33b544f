"""Delivering events to webhooks until they accept them or the time is over.

Pending deliveries are rows in the database. One process at a time sends the deliveries of one webhook in order, one
after another. A webhook that fails is tried again after longer and longer pauses, and delays no other webhook. The
claim of a process that died expires.
"""

import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Case, Exists, F, OuterRef, Q, Subquery, When
from django.db.models.functions import Greatest
from django.utils import timezone

from portal.runs.hooks import EventsWritten
from portal.webhooks import posting
from portal.webhooks.models import BY_HAND, DeliveryState, Webhook, WebhookDelivery
from portal.webhooks.posting import Answer

BACK_OFF_S = (10, 60, 300, 1_800, 7_200, 21_600)
"""Seconds to wait after each failure, of a delivery and of a webhook; after the last a delivery is given up."""
HEARD_WITHIN = timedelta(days=1)
"""After this a delivery is given up, however often it was tried."""
_CLAIM = timedelta(seconds=60)
_SLICE_S = 30.0
"""The longest turn of a webhook, apart from its last try: shorter than a claim is valid."""


def queue_deliveries(written: EventsWritten) -> None:
    """Queue the events of a run for the webhooks of its organisation that asked for them, as they are written."""
    webhooks = Webhook.objects.filter(organisation=written.run.model.organisation_id, removed_at=None)
    WebhookDelivery.objects.bulk_create(
        WebhookDelivery(webhook=webhook, event=event, next_try_at=timezone.now())
        for webhook in webhooks
        for event in written.events
        if event.kind in webhook.events
    )


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A webhook that is due. `account` is on whose behalf; `only_by_hand` while nothing else may be sent."""

    webhook_id: int
    account: int
    free_at: datetime
    only_by_hand: bool

    @property
    def key(self) -> int:
        """The webhook's key among those that are being served."""
        return self.webhook_id


def due_turns(now: datetime, *, limit: int, without: Collection[int] = (), busy: Collection[int] = ()) -> list[Turn]:
    """The webhooks that have something due, the longest waiting first.

    A webhook that has just had a turn goes to the end: one with few deliveries does not wait for one with many.

    Args:
        now: the moment.
        limit: how many at most.
        without: accounts that have enough turns already.
        busy: webhooks that are being served.
    """
    waiting = WebhookDelivery.objects.filter(webhook=OuterRef("pk"), state=DeliveryState.WAITING, next_try_at__lte=now)
    is_free, is_asked_for = Q(free_at__lte=now), Exists(waiting.filter(BY_HAND))
    since = Subquery(waiting.order_by("next_try_at").values("next_try_at")[:1])
    rows = (
        Webhook.objects.filter(Exists(waiting), is_free | is_asked_for, removed_at=None)
        .exclude(organisation__sponsor__in=without)
        .exclude(pk__in=busy)
        .annotate(since=Case(When(is_free, then=Greatest(since, "free_at")), default=since))
        .order_by("since")
        .values_list("pk", "organisation__sponsor", "organisation", "free_at")
    )
    return [
        # An operator's organisation without a sponsor stands for itself; the sign keeps it apart from accounts.
        Turn(webhook_id=pk, account=sponsor or -organisation, free_at=free_at, only_by_hand=free_at > now)
        for pk, sponsor, organisation, free_at in rows[:limit]
    ]


def take_turn(turn: Turn, now: datetime) -> int:
    """Send a webhook its deliveries due at `now`, up to the first failure; returns the number of tries."""
    row = Webhook.objects.filter(pk=turn.webhook_id, free_at=turn.free_at, removed_at=None)
    # Two processes may have read the same row: only one finds it as it was.
    if not row.update(free_at=now + _CLAIM):
        return 0
    waiting = WebhookDelivery.objects.filter(webhook=turn.webhook_id, state=DeliveryState.WAITING)
    too_late = waiting.filter(created_at__lt=now - HEARD_WITHIN)
    too_late.update(state=DeliveryState.GIVEN_UP, next_try_at=None, error="It was not delivered within a day.")
    due = waiting.filter(next_try_at__lte=now).order_by("next_try_at", "created_at")
    if turn.only_by_hand:
        due = due.filter(BY_HAND)
    tries, until = 0, time.monotonic() + _SLICE_S
    for pk in list(due.values_list("pk", flat=True)[:200]):
        answer = deliver(pk)
        tries += answer is not None
        if time.monotonic() > until or (answer is not None and not answer.is_good):
            break
    # Unless a try has set when it is free again, it is so now.
    Webhook.objects.filter(pk=turn.webhook_id, free_at=now + _CLAIM).update(
        free_at=turn.free_at if turn.only_by_hand else timezone.now()
    )
    return tries


def deliver_due(now: datetime) -> int:
    """Give every webhook that is due its turn, one after another; returns how many tries that took."""
    return sum(take_turn(turn, now) for turn in due_turns(now, limit=1000))


def deliver(delivery_id: uuid.UUID | str) -> Answer | None:
    """Send one delivery and note the answer; None where it waits for nothing any more."""
    delivery = (
        WebhookDelivery.objects.select_related("webhook", "event__attempt", "event__run")
        .filter(pk=delivery_id, state=DeliveryState.WAITING)
        .first()
    )
    if delivery is None:
        return None
    body = body_of(delivery)
    answer = posting.post(delivery.webhook.url, body, _headers(delivery, body))
    _note(delivery, answer, timezone.now())
    return answer


def body_of(delivery: WebhookDelivery) -> bytes:
    """What is sent: the event as the feed has it, its run and its organisation. A test has no event."""
    event = delivery.event
    attempt = event.attempt if event is not None else None
    content = {
        "id": event.pk if event else None,
        "kind": delivery.kind,
        "at": (event.at if event else delivery.created_at).isoformat(),
        "run": str(event.run_id) if event else None,
        "url": f"{settings.SITE_URL}/runs/{event.run_id}/" if event else None,
        "attempt_id": attempt.pk if attempt else None,
        "key": attempt.key if attempt else None,
        "problem": attempt.problem if attempt else None,
        "sample": attempt.sample if attempt else None,
        "step": attempt.step if attempt else None,
        "verdict": (event.verdict if event else "") or None,
        "message": event.message if event else "This is a test of the webhook.",
        "score": event.score if event else None,
    }
    return json.dumps(content).encode()


def signature(secret: str, body: bytes, *, timestamp: int) -> str:
    """The value of X-PKB-Signature: HMAC-SHA256 over `timestamp.body`."""
    signed = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"t={timestamp},v1={signed.hexdigest()}"


def _headers(delivery: WebhookDelivery, body: bytes) -> dict[str, str]:
    stamp = int(timezone.now().timestamp())
    return {
        "Content-Type": "application/json",
        "User-Agent": "ParallelKernelBench-webhook/1",
        "X-PKB-Event": delivery.kind,
        "X-PKB-Delivery": str(delivery.pk),
        "X-PKB-Signature": signature(delivery.webhook.secret, body, timestamp=stamp),
    }


def _note(delivery: WebhookDelivery, answer: Answer, now: datetime) -> None:
    # A second process may have sent the same delivery after a claim ran out: only the first response to a try counts.
    row = WebhookDelivery.objects.filter(pk=delivery.pk, tries=delivery.tries, state=DeliveryState.WAITING)
    known = {"tries": F("tries") + 1, "answer_status": answer.status, "error": answer.error[:300]}
    webhook = Webhook.objects.filter(pk=delivery.webhook_id)
    if answer.is_good:
        row.update(state=DeliveryState.DELIVERED, next_try_at=None, delivered_at=now, **known)
        if delivery.webhook.failures:
            webhook.update(failures=0, free_at=now)
        return
    if delivery.is_by_hand or delivery.tries >= len(BACK_OFF_S):
        row.update(state=DeliveryState.GIVEN_UP, next_try_at=None, **known)
    else:
        row.update(next_try_at=now + timedelta(seconds=BACK_OFF_S[delivery.tries]), **known)
    if not delivery.is_by_hand:
        wait_s = BACK_OFF_S[min(delivery.webhook.failures, len(BACK_OFF_S) - 1)]
        webhook.update(failures=F("failures") + 1, free_at=now + timedelta(seconds=wait_s))
