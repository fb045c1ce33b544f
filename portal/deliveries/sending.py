"""Sending to endpoints until they accept a delivery or its time is over.

Pending deliveries and notices are rows in the database. One process at a time serves an endpoint: a webhook gets its
deliveries in order, one after another; a channel gets all its pending notices as one, the first at once, the next after
`COOLDOWN`. An endpoint that fails is tried again after longer and longer pauses, and delays no other. The claim of a
process that died expires.
"""

import hashlib
import hmac
import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connection, transaction
from django.db.models import Case, Exists, F, OuterRef, Q, Subquery, When
from django.db.models.functions import Coalesce, Greatest
from django.utils import timezone

from portal.core.database_outage import ThrottledLogger
from portal.deliveries import mailing, outbound_http, rendering
from portal.deliveries.models import Delivery, DeliveryState, Endpoint, Form, Notice

BACK_OFF_S = (10, 60, 300, 1_800, 7_200, 21_600)
"""Seconds to wait after each failure, of a delivery and of an endpoint; after the last a delivery is given up."""
DELIVERY_TTL = timedelta(days=1)
"""After this a delivery is given up, however often it was tried."""
BATCH_WINDOW = timedelta(seconds=3)
"""How long the first of several notices waits for the others."""
COOLDOWN = timedelta(minutes=5)
"""How long a channel is left alone after a delivery of notices."""
_CLAIM = timedelta(seconds=60)
_SLICE_S = 30.0
"""The longest service of an endpoint, apart from its last try: shorter than a claim is valid."""


def due_endpoints(now: datetime, *, limit: int, without: Collection[int] = (), busy: Collection[int] = ()) -> list[Any]:
    """The endpoints that have something due, the longest waiting first, each with `payer`: on whose behalf.

    An endpoint that was just served goes to the end: one with few deliveries does not wait for one with many.

    Args:
        now: the moment.
        limit: how many at most.
        without: payers for whom enough endpoints are being served.
        busy: endpoints that are being served.
    """
    waiting = Delivery.objects.filter(state=DeliveryState.WAITING, next_try_at__lte=now).order_by("next_try_at")
    pending = Notice.objects.filter(delivery=None, at__lte=now - BATCH_WINDOW).order_by("at")
    # Few of many endpoints have something due, and both indexes hold nothing else.
    with_something = waiting.order_by().values("endpoint").union(pending.order_by().values("endpoint"))
    waiting, pending = waiting.filter(endpoint=OuterRef("pk")), pending.filter(endpoint=OuterRef("pk"))
    since = Coalesce(Subquery(waiting.values("next_try_at")[:1]), Subquery(pending.values("at")[:1]))
    is_free = Q(free_at__lte=now)
    found = (
        Endpoint.objects.filter(Q(account=None) | Q(account__is_active=True), pk__in=with_something, removed_at=None)
        .filter(is_free | Exists(waiting.filter(is_test=True)))
        # An operator's organisation without a sponsor stands for itself; the sign keeps it apart from accounts.
        .annotate(payer=Coalesce("account", "organisation__sponsor", -F("organisation")))
        .exclude(payer__in=without)
        .exclude(pk__in=busy)
        .order_by(Case(When(is_free, then=Greatest(since, "free_at")), default=since))
    )
    return list(found[:limit])


def deliver_batch(endpoint: Endpoint, now: datetime) -> int:
    """Send an endpoint what is due at `now`, up to the first failure; returns the number of tries.

    One that is not free yet is sent tests alone.
    """
    only_tests = endpoint.free_at > now
    row = Endpoint.objects.filter(pk=endpoint.pk, free_at=endpoint.free_at, removed_at=None)
    # Two processes may have read the same row: only one finds it as it was.
    if not row.update(free_at=now + _CLAIM):
        return 0
    waiting = Delivery.objects.filter(endpoint=endpoint.pk, state=DeliveryState.WAITING)
    too_late = waiting.filter(created_at__lt=now - DELIVERY_TTL)
    too_late.update(state=DeliveryState.GIVEN_UP, next_try_at=None, error="It was not delivered within a day.")
    due = waiting.filter(next_try_at__lte=now).order_by("next_try_at", "created_at")
    if only_tests:
        due = due.filter(is_test=True)
    elif not due.exclude(is_test=True).exists():
        with transaction.atomic():
            pending = list(Notice.objects.select_for_update().filter(endpoint=endpoint.pk, delivery=None))
            if pending:
                delivery = Delivery.objects.create(endpoint=endpoint, next_try_at=now)
                Notice.objects.filter(pk__in=[one.pk for one in pending]).update(delivery=delivery)
    tries, until = 0, time.monotonic() + _SLICE_S
    for pk in list(due.values_list("pk", flat=True)[:200]):
        result = deliver(pk)
        tries += result is not None
        if time.monotonic() > until or (result is not None and not result.is_good):
            break
    # Unless a try has set when it is free again, it is so now.
    Endpoint.objects.filter(pk=endpoint.pk, free_at=now + _CLAIM).update(
        free_at=endpoint.free_at if only_tests else timezone.now()
    )
    return tries


def deliver(delivery_id: uuid.UUID | str) -> outbound_http.HttpResult | None:
    """Send one delivery and note the result; None where it waits for nothing any more."""
    delivery = (
        Delivery.objects.select_related("endpoint__account", "event__attempt", "event__run")
        .filter(pk=delivery_id, state=DeliveryState.WAITING)
        .first()
    )
    if delivery is None:
        return None
    result = _send(delivery)
    _note(delivery, result, timezone.now())
    return result


def _send(delivery: Delivery) -> outbound_http.HttpResult:
    endpoint = delivery.endpoint
    if endpoint.account is not None and endpoint.form == Form.MAIL:
        message = rendering.message_of(delivery)
        return mailing.send(endpoint.account, subject=message.heading, body=rendering.for_mail(message))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"ParallelKernelBench-{'webhook' if endpoint.is_webhook else 'notices'}/1",
    }
    body = rendering.body_of(delivery)
    if endpoint.is_webhook:
        headers["X-PKB-Event"] = delivery.kind
    if endpoint.form == Form.SIGNED:
        headers["X-PKB-Delivery"] = str(delivery.pk)
        headers["X-PKB-Signature"] = signature(endpoint.secret, body, timestamp=int(time.time()))
    return outbound_http.post(endpoint.url, body, headers)


def signature(secret: str, body: bytes, *, timestamp: int) -> str:
    """The value of X-PKB-Signature: HMAC-SHA256 over `timestamp.body`."""
    signed = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"t={timestamp},v1={signed.hexdigest()}"


def _note(delivery: Delivery, result: outbound_http.HttpResult, now: datetime) -> None:
    # A second process may have sent the same delivery after a claim ran out: only the first response to a try counts.
    row = Delivery.objects.filter(pk=delivery.pk, tries=delivery.tries, state=DeliveryState.WAITING)
    known = {"tries": F("tries") + 1, "answer_status": result.status, "error": result.error[:300]}
    endpoint = Endpoint.objects.filter(pk=delivery.endpoint_id)
    if result.is_good:
        row.update(state=DeliveryState.DELIVERED, next_try_at=None, delivered_at=now, **known)
        if not delivery.endpoint.is_webhook and not delivery.is_test:
            endpoint.update(failures=0, free_at=now + COOLDOWN)
        elif delivery.endpoint.failures:
            endpoint.update(failures=0, free_at=now)
        return
    if delivery.is_test or delivery.tries >= len(BACK_OFF_S):
        row.update(state=DeliveryState.GIVEN_UP, next_try_at=None, **known)
    else:
        row.update(next_try_at=now + timedelta(seconds=BACK_OFF_S[delivery.tries]), **known)
    if not delivery.is_test:
        wait_s = BACK_OFF_S[min(delivery.endpoint.failures, len(BACK_OFF_S) - 1)]
        endpoint.update(failures=F("failures") + 1, free_at=now + timedelta(seconds=wait_s))


AT_ONCE = 32
"""The endpoints that a process serves at the same time."""
PER_ACCOUNT = 4
"""How many of these may be of one account and its organisations: slow receivers of one leave room for the others."""
LOOK_EVERY_S = 1.0
logger = logging.getLogger(__name__)


class DeliveryWorker:
    """Serves the endpoints that are due until stopped."""

    def __init__(self) -> None:
        self._payers: dict[int, int] = {}
        self._changed = threading.Condition()
        self._away = ThrottledLogger(logger)

    @property
    def is_busy(self) -> bool:
        return bool(self._payers)

    def run(self, stop: threading.Event) -> None:
        """Look for what is due, every second and whenever an endpoint was served."""
        while not stop.is_set():
            close_old_connections()
            try:
                self.look()
            except (DatabaseError, InterfaceError) as error:
                self._away.note("deliveries wait", error)
            with self._changed:
                self._changed.wait(LOOK_EVERY_S)

    def look(self) -> int:
        """Begin to serve as many endpoints as there is room for; returns how many."""
        with self._changed:
            busy, counts = set(self._payers), Counter(self._payers.values())
        full = [payer for payer, count in counts.items() if count >= PER_ACCOUNT]
        begun, now = 0, timezone.now()
        # More than there is room for: the first may all be of one account.
        for endpoint in due_endpoints(now, limit=10 * AT_ONCE, without=full, busy=busy):
            if len(busy) + begun < AT_ONCE and counts[endpoint.payer] < PER_ACCOUNT:
                begun += 1
                counts[endpoint.payer] += 1
                with self._changed:
                    self._payers[endpoint.pk] = endpoint.payer
                # A daemon: the process ends without waiting for a receiver, and its claims expire.
                threading.Thread(target=self._serve, args=(endpoint,), daemon=True).start()
        return begun

    def _serve(self, endpoint: Endpoint) -> None:
        try:
            deliver_batch(endpoint, timezone.now())
        except (DatabaseError, InterfaceError) as error:
            self._away.note("a delivery waits", error)
        except Exception:
            # One receiver must not stop the deliveries to all others. Its claim expires.
            logger.exception("delivery to endpoint %s failed", endpoint.pk)
        finally:
            connection.close()
            with self._changed:
                del self._payers[endpoint.pk]
                self._changed.notify_all()
