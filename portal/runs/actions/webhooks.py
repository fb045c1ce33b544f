"""Webhooks: adding and removing them, and telling them of events until they have heard it or it is too late.

What is to be told is rows in the database. A thread beside the dispatcher claims those that are due and sends them, so
that an address that does not answer keeps no report waiting; a claim that leads to nothing, because the process died,
becomes due again by itself.
"""

import hashlib
import hmac
import http.client
import ipaddress
import json
import secrets
import socket
import ssl
import threading
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from portal.accounts.models import Organisation, User
from portal.accounts.organisations import require_owner
from portal.refusals import Refusal
from portal.runs.models import DeliveryState, EventKind, Webhook, WebhookDelivery

MAX_WEBHOOKS = 10
BACK_OFF_S = (10, 60, 300, 1_800, 7_200, 21_600)
"""Seconds to wait after each failed try; after the last the delivery is given up."""
_CLAIM = timedelta(seconds=60)
_TIMEOUT_S = 10.0
_WHOLE_TRY_S = 20.0
"""How long one try may take in all: an answer that trickles in never runs into the time limit of a single read."""
_ANSWER_BYTES = 1024
_TOO_SLOW = f"The answer took more than {_WHOLE_TRY_S:.0f} seconds."
_EMBEDS_IPV4 = tuple(ipaddress.ip_network(block) for block in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "::/96"))
"""Networks whose addresses lead to an IPv4 address written in them, which may be a private one."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of one try: the HTTP status, or the reason why there is none."""

    status: int | None
    error: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the webhook has taken it."""
        return self.status is not None and 200 <= self.status < 300


def add_webhook(organisation: Organisation, *, url: str, events: Iterable[str], by: User) -> Webhook:
    """Add an address that is told of events; its `secret` is shown once by the caller.

    Raises:
        Refusal: `by` is no owner (403), the address or an event is none, or there are too many (409).
    """
    require_owner(by, organisation)
    chosen = sorted(set(events))
    for event in chosen:
        if event not in EventKind.values:
            known = ", ".join(EventKind.values)
            raise Refusal(field="events", value=event, message="There is no such event.", remedy=f"Known are {known}.")
    if not chosen:
        raise Refusal(field="events", value="", message="The webhook hears of nothing.", remedy="Choose an event.")
    _address(url)
    if organisation.webhooks.filter(removed_at=None).count() >= MAX_WEBHOOKS:
        raise Refusal(
            field="url",
            value=url,
            message=f"The organisation has {MAX_WEBHOOKS} webhooks, which is the most there can be.",
            remedy="Remove one.",
            status=409,
        )
    return Webhook.objects.create(
        organisation=organisation, url=url, events=chosen, secret=f"whsec_{secrets.token_urlsafe(32)}"
    )


def remove_webhook(webhook: Webhook, *, by: User) -> None:
    """Tell an address nothing any more; its log stays. Raises Refusal (403)."""
    require_owner(by, webhook.organisation)
    now = timezone.now()
    Webhook.objects.filter(pk=webhook.pk, removed_at=None).update(removed_at=now)
    waiting = webhook.deliveries.filter(state=DeliveryState.WAITING)
    waiting.update(state=DeliveryState.GIVEN_UP, next_try_at=None, error="The webhook was removed.")


def claim_due_deliveries(now: datetime, *, limit: int = 5) -> list[uuid.UUID]:
    """Take the deliveries that are due; each is due again in a minute unless somebody notes an answer before."""
    due = WebhookDelivery.objects.filter(state=DeliveryState.WAITING, next_try_at__lte=now).order_by("next_try_at")
    claimed = []
    for pk, due_at in due.values_list("pk", "next_try_at")[:limit]:
        # Two dispatchers may have read the same row: only one finds it as it was.
        row = WebhookDelivery.objects.filter(pk=pk, next_try_at=due_at, state=DeliveryState.WAITING)
        if row.update(next_try_at=now + _CLAIM):
            claimed.append(pk)
    return claimed


def deliver_due(now: datetime) -> int:
    """Send every delivery that is due; returns how many were tried."""
    claimed = claim_due_deliveries(now)
    for delivery_id in claimed:
        deliver(delivery_id)
    return len(claimed)


def deliver(delivery_id: uuid.UUID | str) -> Answer | None:
    """Send one delivery and note the answer; None where it waits for nothing any more."""
    delivery = (
        WebhookDelivery.objects.select_related("webhook", "event__attempt", "event__run")
        .filter(pk=delivery_id, state=DeliveryState.WAITING)
        .first()
    )
    if delivery is None:
        return None
    answer = _post(delivery.webhook.url, body_of(delivery), _headers(delivery))
    _note(delivery, answer, timezone.now())
    return answer


def body_of(delivery: WebhookDelivery) -> bytes:
    """What is sent: the event as the feed has it, its run and its organisation."""
    event = delivery.event
    attempt = event.attempt
    content = {
        "id": event.pk,
        "kind": event.kind,
        "at": event.at.isoformat(),
        "run": str(event.run_id),
        "url": f"{settings.SITE_URL}/runs/{event.run_id}/",
        "attempt_id": attempt.pk if attempt else None,
        "key": attempt.key if attempt else None,
        "problem": attempt.problem if attempt else None,
        "sample": attempt.sample if attempt else None,
        "step": attempt.step if attempt else None,
        "verdict": event.verdict or None,
        "message": event.message,
        "score": event.score,
    }
    return json.dumps(content).encode()


def signature(secret: str, body: bytes, *, timestamp: int) -> str:
    """The value of X-PKB-Signature: HMAC-SHA256 over `timestamp.body`."""
    signed = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"t={timestamp},v1={signed.hexdigest()}"


def _headers(delivery: WebhookDelivery) -> dict[str, str]:
    stamp = int(timezone.now().timestamp())
    return {
        "Content-Type": "application/json",
        "User-Agent": "ParallelKernelBench-webhook/1",
        "X-PKB-Event": delivery.event.kind,
        "X-PKB-Delivery": str(delivery.pk),
        "X-PKB-Signature": signature(delivery.webhook.secret, body_of(delivery), timestamp=stamp),
    }


def _note(delivery: WebhookDelivery, answer: Answer, now: datetime) -> None:
    # A second worker may have sent the same delivery after a claim ran out: only the first answer to a try counts.
    row = WebhookDelivery.objects.filter(pk=delivery.pk, tries=delivery.tries, state=DeliveryState.WAITING)
    known = {"tries": F("tries") + 1, "answer_status": answer.status, "error": answer.error[:300]}
    if answer.is_good:
        row.update(state=DeliveryState.DELIVERED, next_try_at=None, delivered_at=now, **known)
    elif delivery.tries < len(BACK_OFF_S):
        row.update(next_try_at=now + timedelta(seconds=BACK_OFF_S[delivery.tries]), **known)
    else:
        row.update(state=DeliveryState.GIVEN_UP, next_try_at=None, **known)


def _address(url: str) -> SplitResult:
    """The parts of an address that may be told; raises Refusal."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    schemes = ("https", "http") if settings.WEBHOOKS_TO_PRIVATE_ADDRESSES else ("https",)
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= 300
    if parts.scheme not in schemes or not parts.hostname or parts.username or parts.fragment or not plain:
        raise Refusal(
            field="url",
            value=url,
            message="This is no address that can be told.",
            remedy=f"Give an address that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}, "
            "without a user name or fragment.",
        )
    return parts


def _post(url: str, body: bytes, headers: dict[str, str]) -> Answer:
    """Send once, to the very address that was looked at: no redirects, no second resolution of the name."""
    try:
        parts = _address(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        connection = _Pinned(host, port, address=_resolved(host, port), is_tls=parts.scheme == "https")
        deadline = threading.Timer(_WHOLE_TRY_S, connection.cut_off)
        deadline.daemon = True
        deadline.start()
        try:
            path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
            connection.request("POST", path, body=body, headers=headers)
            response = connection.getresponse()
            response.read(_ANSWER_BYTES)
            if connection.is_cut_off:
                return Answer(status=None, error=_TOO_SLOW)
            error = "" if 200 <= response.status < 300 else f"answered {response.status} {response.reason}"
            return Answer(status=response.status, error=_shown(error))
        finally:
            deadline.cancel()
            connection.close()
    except (Refusal, OSError, http.client.HTTPException, ValueError) as error:
        # ValueError: names that IDNA cannot write (`a..b`), and what else the far end makes the parsers trip over.
        return Answer(status=None, error=_shown(str(error) or type(error).__name__))


def _shown(text: str) -> str:
    """What the far end wrote, without what a database refuses or a log should not show."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _resolved(host: str, port: int) -> str:
    """The IP address behind a name, if it may be told; raises OSError."""
    found = str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
    if not settings.WEBHOOKS_TO_PRIVATE_ADDRESSES and not is_public(found):
        # Without the address: what names inside the operator's network stand for is not the vendor's affair.
        raise OSError(f"{host} does not lead to a public address")
    return found


def is_public(address: str) -> bool:
    """Whether an IP address is one host of the public internet, written plainly."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address) and (found.is_site_local or any(found in net for net in _EMBEDS_IPV4)):
        return False
    return found.is_global and not found.is_multicast


class _Pinned(http.client.HTTPConnection):
    """A connection to one IP address that speaks to, and with TLS verifies, the name it was found under."""

    def __init__(self, host: str, port: int, *, address: str, is_tls: bool) -> None:
        super().__init__(host, port, timeout=_TIMEOUT_S)
        self._address = address
        self._is_tls = is_tls
        self._handle: socket.socket | None = None
        self.is_cut_off = False

    def connect(self) -> None:
        """Open the connection."""
        plain = socket.create_connection((self._address, self.port), timeout=_TIMEOUT_S)
        self._handle = plain.dup()  # a handshake can be cut off through it as well
        context = ssl.create_default_context() if self._is_tls else None
        self.sock = context.wrap_socket(plain, server_hostname=self.host) if context else plain

    def cut_off(self) -> None:
        """End a try that takes too long, wherever it stands; called from another thread."""
        self.is_cut_off = True
        if self._handle is not None:
            with suppress(OSError):
                self._handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        super().close()
        if self._handle is not None:
            self._handle.close()
