"""Limits on password tries, and on the other forms that strangers may send.

Failures are counted per account and address, per address and per account, each within a window that begins with the
first of them. An account has by far the largest allowance of its own, so that a stranger cannot lock its owner out by
guessing from elsewhere. The counters live in the cache `attempts`, which all processes of the site share.
"""

import hashlib
import ipaddress
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse

from portal.accounts.models import User
from portal.refusals import Refusal


@dataclass(frozen=True)
class Limit:
    """At most `failures` within `window_s` seconds."""

    failures: int
    window_s: int


PAIR = Limit(failures=6, window_s=5 * 60)
ADDRESS = Limit(failures=30, window_s=15 * 60)
ACCOUNT = Limit(failures=100, window_s=60 * 60)
SIGN_UPS = Limit(failures=60, window_s=60 * 60)
"""Sign-up forms from one address, refused ones among them: a classroom behind one address still gets in."""
MAILS = Limit(failures=10, window_s=60 * 60)
"""Forms that send a mail, from one address or account."""
CODES = Limit(failures=20, window_s=5 * 60)
"""Codes of a second factor, recovery codes and passwords asked for again, by one account or from one address."""


def seconds_to_wait(username: str, address: str) -> int:
    """How long this address may not try this account any more; 0 where it may."""
    now = time.time()
    counters = caches["attempts"].get_many([key for key, _ in _keys(username, address)])
    waits = [
        int(counters[key][1] + limit.window_s - now) + 1
        for key, limit in _keys(username, address)
        if key in counters and counters[key][0] >= limit.failures
    ]
    return max([0, *waits])


def note_failure(username: str, address: str) -> None:
    """Count a wrong password."""
    now = time.time()
    cache = caches["attempts"]
    for key, limit in _keys(username, address):
        count, since = cache.get(key, (0, now))
        cache.set(key, (count + 1, since), timeout=max(1, since + limit.window_s - now))


def forget(username: str, address: str) -> None:
    """The right password was given: reset this address and account."""
    (pair, _), *_ = _keys(username, address)
    caches["attempts"].delete(pair)


View = Callable[..., HttpResponse]


def limited(name: str, limit: Limit) -> Callable[[View], View]:
    """A decorator: at most `limit` POSTs of the view from one address, and of one account; then Refusal (429)."""

    def decorate(view: View) -> View:
        @wraps(view)
        def counted(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.method == "POST":
                _take(name, limit, request)
            return view(request, *args, **kwargs)

        return counted

    return decorate


def _take(name: str, limit: Limit, request: HttpRequest) -> None:
    now, cache = time.time(), caches["attempts"]
    keys = [_key(name, "address", _household(client_address(request)))]
    # At the second factor the user is not signed in yet: allauth's session says whose password was right.
    pending = request.session.get("account_login") or {}
    account = request.user.pk if isinstance(request.user, User) else pending.get("user_pk")
    if account is not None:
        keys.append(_key(name, "account", str(account)))
    for key in keys:
        count, since = cache.get(key, (0, now))
        if count >= limit.failures:
            raise _too_many(int(since + limit.window_s - now) + 1)
        cache.set(key, (count + 1, since), timeout=max(1, since + limit.window_s - now))


def _too_many(wait_s: int) -> Refusal:
    return Refusal(
        field="",
        value="",
        message="This form was sent too often from your address.",
        remedy=f"Try again in about {max(1, round(wait_s / 60))} minutes.",
        status=429,
        retry_after_s=wait_s,
    )


def client_address(request: HttpRequest) -> str:
    """A request's address, behind as many proxies as are ours; other forwarded addresses are ignored."""
    proxies: int = settings.REST_FRAMEWORK["NUM_PROXIES"]
    forwarded = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
    if proxies == 0 or not forwarded:
        return str(request.META.get("REMOTE_ADDR", ""))
    return str(forwarded[-min(proxies, len(forwarded))])


def _keys(username: str, address: str) -> tuple[tuple[str, Limit], ...]:
    # As the form reads names: else every letter's other writings would be a fresh allowance for the same account.
    name = unicodedata.normalize("NFKC", username).strip().casefold()
    address = _household(address)
    return (
        (_key("pair", name, address), PAIR),
        (_key("address", address), ADDRESS),
        (_key("account", name), ACCOUNT),
    )


def _household(address: str) -> str:
    """The address, or of IPv6 the /64 that one customer has at least: 2^64 addresses to try from."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(found), 64), strict=False))
    return address


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
