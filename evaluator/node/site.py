"""Sends a node's messages to the site: one HTTPS request each, whose answer is the receipt."""

import gzip
import hashlib
import http.client
import json
import logging
import threading
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from evaluator.contract import MOST_COMPRESSED_BYTES, VERSION, ContractError, NodeMessage, Receipt

logger = logging.getLogger(__name__)

TIMEOUT_S = 20.0
"""How long the site may be silent before a request is given up."""
_MOST_ANSWER_BYTES = 64 * 1024


def packed(content: bytes) -> bytes:
    """A message as it is sent."""
    return gzip.compress(content, 5)


class NotReceived(Exception):
    """The site has not confirmed a message now: it is away, busy, or not reached. The same may succeed later."""


class KeyRefused(NotReceived):
    """The site does not take this node's key."""


class Revoked(NotReceived):
    """The site has revoked this node."""


class Refused(Exception):
    """The site read a message and does not take it; sending it again would have the same answer.

    `status` is that of the answer: 413 where a smaller message may pass, 422 where the site does not take what it says.
    """

    def __init__(self, reason: str, *, status: int) -> None:
        super().__init__(reason)
        self.status = status


class Site:
    """The site at `url`, as the node called `name` reaches it with its key. Any thread may send."""

    def __init__(self, url: str, *, name: str, key: str) -> None:
        self.url = url.rstrip("/")
        self._address = f"{self.url}/api/v1/nodes/{name}"
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        # HTTPS_PROXY is for the way out, not for a site on this machine.
        is_here = urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")
        proxies = [urllib.request.ProxyHandler({})] if is_here else []
        self._opener = urllib.request.build_opener(_NoRedirect, *proxies)
        self._lock = threading.Lock()
        self.failure = ""
        """Why the last message was not received; "" where it was."""
        self._version = VERSION

    def send(self, kind: NodeMessage, text: str) -> None:
        """Send a message; when this returns, the site has committed it.

        Raises:
            NotReceived: it may be sent again later.
            Refused: it would be refused again.
        """
        content = text.encode()
        try:
            version = _receipt(self._answer(kind, content), content).version
        except NotReceived as error:
            self._note(str(error))
            raise
        except Refused:
            self._note("")
            raise
        self._note("")
        if version != self._version:
            self._version = version
            logger.info("the site %s has version %s, this node %s", self.url, version, VERSION)

    def _answer(self, kind: NodeMessage, content: bytes) -> bytes:
        body = packed(content)
        if len(body) > MOST_COMPRESSED_BYTES:
            # A proxy may refuse it in a way that says nothing: Caddy 2.6 answers 502.
            raise Refused(f"the message has {len(body)} bytes, compressed", status=413)
        request = urllib.request.Request(  # noqa: S310 - the settings take http and https alone
            f"{self._address}/{kind.value}/", data=body, headers=self._headers
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                return bytes(response.read(_MOST_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                raise _meaning(error, self.url, kind) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise NotReceived(f"the site {self.url} cannot be reached: {reason}") from error

    def _note(self, failure: str) -> None:
        """Say once that the site is away or takes no message, and once that it does again."""
        with self._lock:
            before, self.failure = self.failure, failure
        if failure and failure != before:
            logger.warning("%s", failure)
        elif before and not failure:
            logger.info("the site %s answers again", self.url)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key goes to the configured address and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _meaning(error: urllib.error.HTTPError, url: str, kind: NodeMessage) -> Exception:
    """What an answer that is no success means for its message."""
    try:
        problem = json.loads(error.read(_MOST_ANSWER_BYTES))
        reason, is_ours = str(problem["detail"])[:1000], "request_id" in problem
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        reason, is_ours = "", False
    match error.code:
        case 401 if is_ours:
            return KeyRefused(f"the site {url} does not take this node's key: {reason}")
        case 410 if is_ours:
            return Revoked(f"the site {url} has revoked this node: {reason}")
        case 413:
            return Refused(reason or "the message is larger than a proxy lets pass", status=413)
        # An older site does not know a kind of message (404). It knows reports: for them PKB_SITE_URL is wrong.
        case 400 | 403 | 404 | 409 | 415 | 422 if is_ours and (error.code, kind) != (404, NodeMessage.REPORT):
            return Refused(reason, status=error.code)
        case 301 | 302 | 303 | 307 | 308:
            target = error.headers.get("Location", "another address")
            return NotReceived(f"the site {url} redirects to {target}; PKB_SITE_URL has to name the address itself")
    hint = "" if is_ours else "; is PKB_SITE_URL the site's address, and does a proxy between let nodes pass?"
    return NotReceived(f"the site {url} answered {error.code} {reason or error.reason}{hint}")


def _receipt(answer: bytes, content: bytes) -> Receipt:
    """The receipt for `content`; raises NotReceived where it is none, as of a proxy that answers in the site's name."""
    try:
        receipt = Receipt.from_json(answer)
    except ContractError as error:
        raise NotReceived(f"what answers at PKB_SITE_URL is not the site: {error}") from error
    if receipt.sha256 != hashlib.sha256(content).hexdigest():
        raise NotReceived("the site's receipt is for another message: a proxy between has changed one")
    return receipt
