"""Where Prometheus asks, a port of its own to which no proxy leads, and the state of the site that it is told.

Gauges of queue, leases, nodes, broker and outboxes are read when somebody asks, and cached for a few seconds.

Every statement reads what is unfinished, by an index, or tables as small as the number of nodes: what a site judged
before costs nothing.
"""

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections
from django.db.models import Case, CharField, Count, F, Min, Q, Value, When
from django.utils import timezone
from kombu.exceptions import KombuError
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from evaluator.broker.queues import length, work_queue
from evaluator.hardware.profiles import profiles
from portal.celery import app
from portal.core import metrics
from portal.deliveries.models import Delivery, DeliveryState
from portal.exports.files import newest
from portal.nodes.models import Node, Slot
from portal.nodes.queries import offline_before
from portal.submissions.models import Evaluation, State
from portal.submissions.queue import paused_profiles

KEPT_S = 5.0
"""So long an answer serves all who ask: several web processes and several Prometheus."""
BROKER_S = 2
_KINDS = ("people", "bulk")
_KIND = Case(When(priority__lt=0, then=Value("bulk")), default=Value("people"), output_field=CharField())


class StateOfTheSite:
    """A collector of gauges that all web processes answer alike."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at_s = -KEPT_S
        self._metrics: list[Metric] = []

    def collect(self) -> list[Metric]:
        """The gauges; `pkb_state_up` alone while the database does not answer."""
        with self._lock:
            if time.monotonic() - self._read_at_s >= KEPT_S:
                self._metrics = _read(timezone.now())
                self._read_at_s = time.monotonic()
            return self._metrics


def _read(now: datetime) -> list[Metric]:
    began = time.monotonic()
    up = partial(_one, "pkb_state_up", "Whether the database answered when the state of the site was read.")
    try:
        found = [*_queues(now), *_leases(now), *_nodes(now), *_webhooks(now)]
    except DatabaseError:
        return [up(0), *_broker(())]
    took = _one("pkb_state_read_seconds", "How long reading the state took.", time.monotonic() - began)
    names = Node.objects.filter(is_enabled=True).values_list("name", flat=True)
    return [up(1), took, *found, *_exports(now), *_broker(tuple(names))]


def _queues(now: datetime) -> Iterator[Metric]:
    """Depth by state and the age of the oldest waiting one, of people and of bulk work apart."""
    rows = list(
        Evaluation.objects.filter(state__in=State.unfinished())
        .annotate(kind=_KIND)
        .order_by()
        .values_list("profile", "kind", "state")
        .annotate(count=Count("*"), oldest=Min("queued_at"))
    )
    oldest = {(name, kind): 0.0 for name in profiles() for kind in _KINDS}
    # Zeros too: otherwise an empty queue would look like a site without metrics.
    counts = {(name, kind, State.QUEUED.value): 0 for name in profiles() for kind in _KINDS}
    for profile, kind, state, count, since in rows:
        counts[profile, kind, state] = count
        if state in State.waiting() and (key := (profile, kind)) in oldest:
            oldest[key] = max(oldest[key], (now - since).total_seconds())
    stopped = paused_profiles()
    yield _gauge("pkb_queue_depth", "Evaluations that have not ended.", ("profile", "kind", "state"), counts)
    text = "How long the oldest evaluation has waited for a slot."
    yield _gauge("pkb_queue_oldest_seconds", text, ("profile", "kind"), oldest)
    paused = {(name,): float(name in stopped) for name in profiles()}
    yield _gauge("pkb_queue_paused", "Whether an operator paused the queue.", ("profile",), paused)


def _leases(now: datetime) -> Iterator[Metric]:
    leases = Evaluation.objects.filter(state__in=State.under_lease()).aggregate(
        count=Count("pk"),
        overdue=Count("pk", filter=Q(lease_expires_at__lt=now)),
    )
    yield _one("pkb_leases", "Evaluations that a node holds under a lease.", leases["count"])
    yield _one("pkb_leases_overdue", "Expired leases that no dispatcher has revoked yet.", leases["overdue"])


def _nodes(now: datetime) -> Iterator[Metric]:
    since = offline_before(now)
    nodes = dict(Node.objects.filter(is_enabled=True).values_list("name", "seen_at"))
    online = {(name,): float(at is not None and at >= since) for name, at in nodes.items()}
    silent = {(name,): max(0.0, (now - at).total_seconds()) for name, at in nodes.items() if at is not None}
    yield _gauge("pkb_node_online", "Whether the node's heartbeats arrive.", ("node",), online)
    yield _gauge("pkb_node_silent_seconds", "Since its last heartbeat.", ("node",), silent)
    reported = Case(When(node__seen_at__gte=since, then=F("state")), default=Value("offline"))
    rows = Slot.objects.filter(node__is_enabled=True).annotate(reported=reported).order_by()
    found = rows.values_list("node__name", "profile", "reported").annotate(Count("pk"))
    slots = {tuple(labels): count for *labels, count in found}
    text = "Slots of enabled nodes, by their last reported state; offline without heartbeats."
    yield _gauge("pkb_slots", text, ("node", "profile", "state"), slots)


def _webhooks(now: datetime) -> Iterator[Metric]:
    # Of waiting deliveries alone there is an index.
    waiting = Delivery.objects.filter(
        endpoint__organisation__isnull=False, endpoint__removed_at=None, state=DeliveryState.WAITING
    ).aggregate(count=Count("pk"), due=Min("next_try_at"))
    late_s = max(0.0, (now - waiting["due"]).total_seconds()) if waiting["due"] else 0.0
    yield _one("pkb_webhook_deliveries_waiting", "Webhook deliveries that are pending.", waiting["count"])
    yield _one("pkb_webhook_overdue_seconds", "How long the oldest delivery has been due.", late_s)


def _exports(now: datetime) -> Iterator[Metric]:
    making = newest()
    if making is not None:
        age_s = (now - making.made_at).total_seconds()
        yield _one("pkb_export_age_seconds", "Age of the files of public data.", age_s)


def _broker(nodes: Iterable[str]) -> Iterator[Metric]:
    """Whether the broker answers, and how many messages wait in each node's queue."""
    waiting: dict[tuple[str, ...], float] = {}
    is_up = True
    try:
        with app.connection_for_read() as connection:
            connection.ensure_connection(max_retries=1, timeout=BROKER_S)
            for name in nodes:
                queue = work_queue(name)
                waiting[queue.name,] = length(queue, connection)
    except (KombuError, OSError):
        is_up = False
    yield _one("pkb_broker_up", "Whether the broker responds to the site.", is_up)
    yield _gauge("pkb_broker_messages", "Messages that wait in a queue.", ("queue",), waiting)


def _one(name: str, text: str, value: float) -> Metric:
    return _gauge(name, text, (), {(): value})


def _gauge(name: str, text: str, labels: Sequence[str], values: Mapping[Any, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


# ---- the page --------------------------------------------------------------------------------------------------------


def is_for_metrics(scope: dict[str, Any]) -> bool:
    """Whether a request came in by the metrics port. A header cannot say so: the server knows its own socket."""
    _host, port = scope.get("server") or ("", None)
    return bool(settings.METRICS_LISTEN) and port == metrics.port()


async def application(scope: dict[str, Any], _receive: Any, send: Any) -> None:
    """`GET /metrics`, counts of all web processes and the state of the site; 404 to all else."""
    is_ours = scope["path"] == "/metrics" and scope["method"] == "GET"
    body = await asyncio.to_thread(exposition) if is_ours else b"Metrics are at /metrics.\n"
    kind = CONTENT_TYPE_LATEST if is_ours else "text/plain; charset=utf-8"
    headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200 if is_ours else 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_state = StateOfTheSite()


def exposition() -> bytes:
    """All metrics of a web process, in Prometheus's text format."""
    try:
        return generate_latest(metrics.registry()) + generate_latest(_state)
    finally:
        # The thread belongs to a pool and lives on.
        connections.close_all()
