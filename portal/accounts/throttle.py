"""Limits on password tries, and on the other forms that strangers may send.

Wrong passwords are counted per account and address, per address and per account, each within a window that begins with
the first of them. A device on which somebody has signed in to the account counts by itself: strangers who use up what
the account has for all others do not lock its owner out there. The counters live in the cache `attempts`, which all
processes of the site share.

A try is counted before the password is looked at and given back if it was right. It takes one of the limit's places,
which the cache gives to one request alone, so that many requests at once are not more tries.
"""

import hashlib
import ipaddress
import secrets
import time
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse

from portal.accounts.models import User
from portal.core.errors import TooMany


@dataclass(frozen=True)
class Limit:
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


KNOWN_DEVICE = "known_device"
"""The cookie of a browser on which somebody has signed in, which is sent to the page where one signs in alone."""
_DEVICE_DAYS = 180


@dataclass(frozen=True)
class Tried:
    """One try, counted; or the limit that has no room for it, and how long that lasts."""

    places: tuple[str, ...] = ()
    refused_by: Limit | None = None
    wait_s: int = 0


def try_password(request: HttpRequest, username: str) -> Tried:
    """Count a try of a password before it is looked at."""
    return _claim(_password_counters(request, username))


def was_right(tried: Tried, request: HttpRequest, username: str) -> None:
    """The password was right: nothing was tried, and this address begins anew with this account."""
    (pair, _), *_ = _password_counters(request, username)
    caches["attempts"].delete_many([*tried.places, pair])


def remember_device(response: HttpResponse, username: str) -> None:
    """Let the browser prove from now on that somebody has signed in to this account on it."""
    response.set_signed_cookie(
        KNOWN_DEVICE,
        f"{_key('device', _folded(username))}.{secrets.token_hex(8)}",
        salt=KNOWN_DEVICE,
        max_age=_DEVICE_DAYS * 86_400,
        path=reverse("accounts:sign-in"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


View = Callable[..., HttpResponseBase]


def limited(name: str, limit: Limit) -> Callable[[View], View]:
    """A decorator: at most `limit` POSTs of the view from one address, and of one account; then Refusal (429)."""

    def decorate(view: View) -> View:
        @wraps(view)
        def counted(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method == "POST":
                _take(name, limit, request)
            return view(request, *args, **kwargs)

        return counted

    return decorate


def _take(name: str, limit: Limit, request: HttpRequest) -> None:
    counters = [(_key(name, "address", _household(client_address(request))), limit)]
    # At the second factor the user is not signed in yet: allauth's session says whose password was right.
    pending = request.session.get("account_login") or {}
    account = request.user.pk if isinstance(request.user, User) else pending.get("user_pk")
    if account is not None:
        counters.append((_key(name, "account", str(account)), limit))
    tried = _claim(counters)
    if tried.refused_by is not None:
        remedy = f"Try again in about {max(1, round(tried.wait_s / 60))} minutes."
        raise TooMany("", "", "This form was sent too often from your address.", remedy, retry_after_s=tried.wait_s)


def _claim(counters: Sequence[tuple[str, Limit]]) -> Tried:
    """One free place under each counter, or none under any."""
    cache, places = caches["attempts"], list[str]()
    for key, limit in counters:
        now = time.time()
        since = cache.get(key)
        if since is None:
            cache.add(key, now, timeout=limit.window_s)
            since = cache.get(key, now)
        left_s = max(1, int(since + limit.window_s - now) + 1)
        all_places = [f"{key}:{since}:{number}" for number in range(limit.failures)]
        occupied = cache.get_many(all_places)
        # `add` succeeds for one request alone, in every cache of Django's; its `incr` does not count all in a database.
        free = (place for place in all_places if place not in occupied)
        place = next((place for place in free if cache.add(place, 1, timeout=left_s)), None)
        if place is None:
            cache.delete_many(places)
            return Tried(refused_by=limit, wait_s=left_s)
        places.append(place)
    return Tried(places=tuple(places))


def client_address(request: HttpRequest) -> str:
    """A request's address, behind as many proxies as are ours; other forwarded addresses are ignored."""
    proxies: int = settings.REST_FRAMEWORK["NUM_PROXIES"]
    forwarded = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
    if proxies == 0 or not forwarded:
        return str(request.META.get("REMOTE_ADDR", ""))
    return str(forwarded[-min(proxies, len(forwarded))])


def _password_counters(request: HttpRequest, username: str) -> tuple[tuple[str, Limit], ...]:
    name, address = _folded(username), _household(client_address(request))
    cookie = request.get_signed_cookie(KNOWN_DEVICE, default="", salt=KNOWN_DEVICE, max_age=_DEVICE_DAYS * 86_400)
    device = cookie if cookie and cookie.startswith(f"{_key('device', name)}.") else ""
    return (
        (_key("pair", name, address), PAIR),
        (_key("address", address), ADDRESS),
        (_key("account", name, device), ACCOUNT),
    )


def _folded(username: str) -> str:
    """The name as the form reads it: else every letter's other writings would be a fresh allowance for one account."""
    return unicodedata.normalize("NFKC", username).strip().casefold()


def _household(address: str) -> str:
    """The address, or of IPv6 the /64 that one customer has at least: 2^64 addresses to try from."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    # A mapped address is how a socket for both names a visitor by IPv4.
    if plain := found if isinstance(found, ipaddress.IPv4Address) else found.ipv4_mapped:
        return str(plain)
    return str(ipaddress.ip_network((int(found), 64), strict=False))


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
