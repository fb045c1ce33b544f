"""Sending a message to an address that a stranger chose: once, in bounded time, never into the operator's network."""

import http.client
import ipaddress
import re
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from portal.core.errors import Refusal

ADDRESS = r'^https?://([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?][!"$-~]*)?$'
"""What an address looks like: printable ASCII, without a user name or fragment."""
WHOLE_TRY_S = 20.0
"""How long one try may take in all: an answer that trickles in never runs into the time limit of a single read."""
_TIMEOUT_S = 10.0
_ANSWER_BYTES = 1024
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that IANA has given out for hosts of the public internet."""
_SPECIAL = tuple(
    ipaddress.ip_network(block)
    for block in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
        *("192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
)
"""Every block of IANA's special-purpose address registries that lies in `_UNICAST` or in IPv4, and IPv4's multicast.

Source: iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry. The IPv6 blocks are as of 9
October 2025. The IPv4 blocks were written down without the registry at hand, and have to be compared with it. Python's
own table is older. Blocks whose addresses can be reached (anycast of a protocol, AS112) are in the list too: nobody's
webhook is there.
"""


@dataclass(frozen=True, kw_only=True)
class HttpResult:
    """The result of one try: the HTTP status, or the reason why there is none."""

    status: int | None
    error: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the webhook has taken it."""
        return self.status is not None and 200 <= self.status < 300


def address_of(url: str) -> SplitResult:
    """The parts of a permitted address; raises Refusal."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    schemes = ("https", "http") if settings.WEBHOOKS_TO_PRIVATE_ADDRESSES else ("https",)
    is_plain = re.fullmatch(ADDRESS, url) is not None and url.isprintable() and len(url) <= 300
    if parts.scheme not in schemes or not parts.hostname or not is_plain:
        beginnings = " or ".join(f"{scheme}://" for scheme in schemes)
        remedy = f"Use an address that begins with {beginnings}, without a user name or fragment."
        raise Refusal("url", url, "This is not an address for a webhook.", remedy)
    return parts


def post(url: str, body: bytes, headers: dict[str, str]) -> HttpResult:
    """Send once, to the very address that was looked at: no redirects, no second resolution of the name."""
    try:
        parts = address_of(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        connection = _Pinned(host, port, address=_resolved(host, port), is_tls=parts.scheme == "https")
        deadline = threading.Timer(WHOLE_TRY_S, connection.cut_off)
        deadline.daemon = True
        deadline.start()
        try:
            path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
            connection.request("POST", path, body=body, headers=headers)
            response = connection.getresponse()
            response.read(_ANSWER_BYTES)
            if connection.is_cut_off:
                return HttpResult(status=None, error=f"The response took more than {WHOLE_TRY_S:.0f} seconds.")
            error = "" if 200 <= response.status < 300 else f"answered {response.status} {response.reason}"
            return HttpResult(status=response.status, error=_shown(error))
        finally:
            deadline.cancel()
            connection.close()
    except (Refusal, OSError, http.client.HTTPException, ValueError) as error:
        # ValueError: names that IDNA cannot write (`a..b`), and whatever else in a response the parsers cannot read.
        # Of an error of the system its words alone: its number says nothing to who reads the log.
        words = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return HttpResult(status=None, error=_shown(words))


def _shown(text: str) -> str:
    """What the far end wrote, without what a database refuses or a log should not show."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _resolved(host: str, port: int) -> str:
    """The IP address behind a name, if requests may go there; raises OSError."""
    found = str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
    if not settings.WEBHOOKS_TO_PRIVATE_ADDRESSES and not is_public(found):
        # Without the address: a vendor must not learn what names inside the operator's network resolve to.
        raise OSError(f"{host} does not lead to a public address")
    return found


def is_public(address: str) -> bool:
    """Whether an IP address is one host of the public internet, written plainly."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        # An interface of ISATAP leads to the IPv4 address in its last half, which may be a private one.
        is_isatap = int(found) >> 32 & 0xFDFF_FFFF == 0x5EFE
        if found not in _UNICAST or found.scope_id is not None or is_isatap:
            return False
    return not any(found in block for block in _SPECIAL)


class _Pinned(http.client.HTTPConnection):
    """A connection to one IP address that speaks to, and with TLS verifies, the name it was found under."""

    def __init__(self, host: str, port: int, *, address: str, is_tls: bool) -> None:
        super().__init__(host, port, timeout=_TIMEOUT_S)
        self._address = address
        self._is_tls = is_tls
        self._handle: socket.socket | None = None
        self.is_cut_off = False

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), timeout=_TIMEOUT_S)
        self._handle = plain.dup()  # a handshake can be cut off through it as well
        context = ssl.create_default_context() if self._is_tls else None
        self.sock = context.wrap_socket(plain, server_hostname=self.host) if context else plain

    def cut_off(self) -> None:
        """Abort a try that takes too long, at any stage; called from another thread."""
        self.is_cut_off = True
        if self._handle is not None:
            with suppress(OSError):
                self._handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        super().close()
        if self._handle is not None:
            self._handle.close()
