"""HTTP to the site: the token, errors in the site's words, and patience where trying again is right.

What may be tried again: reads, and writes that carry an idempotency key or say that they are repeatable. A connection
that broke or a 502, 503 or 504 waits a little longer each time; 429 and 503 wait as long as `Retry-After` says.
"""

import contextlib
import email.utils
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx
import msgspec

from .decoding import read_fields
from .errors import Refused, Unreachable, UsageError
from .results import FieldError
from .version import VERSION

USER_AGENT = f"pkb-client/{VERSION}"
Decoded = TypeVar("Decoded")
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=5.0)
"""The last are seconds: an idle connection is kept for fewer than the site keeps it (deploy/gunicorn.conf.py)."""
_RETRIED = frozenset({502, 503, 504})


class _ProblemBody(msgspec.Struct, kw_only=True):
    """application/problem+json as the site writes it."""

    title: str = ""
    detail: str = ""
    errors: tuple[FieldError, ...] = ()


class Transport:
    """One site, one token. Use it from several threads at once as you like."""

    def __init__(
        self,
        site: str,
        *,
        token: str | None = None,
        timeout_s: float = 60.0,
        patience_s: float = 120.0,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """`site` is the address of its front page; `patience_s` how long one call may wait and try again in all."""
        read_fields()
        self.site = site_address(site)
        self._patience_s = patience_s
        self._say = say
        self._has_compared = False
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._http = httpx.Client(base_url=f"{self.site}/api/v1/", headers=headers, timeout=timeout_s, limits=LIMITS)

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def get(self, path: str, into: type[Decoded], **options: Any) -> Decoded:
        """A read, decoded."""
        return decode(self.request("GET", path, **options), into)

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        form: Mapping[str, str] | None = None,
        file: tuple[str, bytes] | None = None,
        body: Callable[[], Iterable[bytes]] | None = None,
        is_repeatable: bool | None = None,
        timeout_s: float | None = None,
    ) -> httpx.Response:
        """Call the site; any answer below 400 comes back.

        `body` starts what is streamed, anew for each try; a Content-Length goes with it. `is_repeatable` says whether
        trying again is safe; without it reads and calls with an Idempotency-Key are.

        Raises:
            Refused: the site answered with an error.
            Unreachable: it did not answer in time.
        """
        sent = dict(headers or {})
        if is_repeatable is None:
            is_repeatable = method in {"GET", "HEAD"} or "Idempotency-Key" in sent
        content: Any = msgspec.json.encode(json) if json is not None else None
        if json is not None:
            sent["Content-Type"] = "application/json"

        def once() -> httpx.Response:
            response = self._http.request(
                method,
                path,
                params=params,
                headers=sent,
                content=body() if body else content,
                data=form,
                files={"file": file} if file else None,
                timeout=self._http.timeout if timeout_s is None else timeout_s,
            )
            self._compare(response.headers.get("X-PKB-Version", ""))
            return response

        retried = _RETRIED if is_repeatable else frozenset()
        return patiently(once, refusal_of, who=self.site, retried=retried, patience_s=self._patience_s, say=self._say)

    def _compare(self, theirs: str) -> None:
        """Say once where the site has another version; numbers after the second promise to go together."""
        differs = theirs.split(".")[:2] != VERSION.split(".")[:2]
        if theirs and differs and not self._has_compared:
            self._say(
                f"{self.site} has version {theirs} and this is pkb {VERSION}: calls may fail. "
                "Install the client of the site's version."
            )
        self._has_compared = True

    @contextlib.contextmanager
    def download(self, path: str, *, params: Mapping[str, str | int] | None = None) -> Iterator[Iterator[bytes]]:
        """The body of a read in pieces, for what may not fit into memory. Until it begins, it is tried like others."""

        def once() -> httpx.Response:
            response = self._http.send(self._http.build_request("GET", path, params=params), stream=True)
            if response.status_code >= 400:
                response.read()
            return response

        response = patiently(
            once, refusal_of, who=self.site, retried=_RETRIED, patience_s=self._patience_s, say=self._say
        )
        with contextlib.closing(response):
            yield response.iter_bytes()


def patiently(
    call: Callable[[], httpx.Response],
    refusal: Callable[[httpx.Response], Refused],
    *,
    who: str,
    retried: frozenset[int],
    patience_s: float,
    say: Callable[[str], None],
) -> httpx.Response:
    """Call until there is an answer below 400, as long as trying again is right and `patience_s` is not used up.

    `retried` are the statuses after which the same call may be made again. A broken connection is one too unless
    `retried` is empty. 429 always is one, because nothing was done.

    Raises:
        Refused: the other side answered with an error.
        Unreachable: it did not answer.
        UsageError: it answered that it has moved.
    """
    deadline = time.monotonic() + patience_s
    tries = 0
    while True:
        tries += 1
        try:
            response = call()
        except (httpx.TransportError, httpx.DecodingError) as error:
            wait_s = backoff_s(tries) if retried else None
            failure: Refused | Unreachable = Unreachable(_unanswered(who, error))
            failure.__cause__ = error
        else:
            if response.has_redirect_location:
                # Followed, a write would lose its body and the token might go to strangers.
                raise UsageError(f"{who} has moved to {response.headers['Location']}; use that address.")
            if response.status_code < 400:
                return response
            failure = refusal(response)
            wait_s = _wait_after(failure, tries=tries, retried=retried)
        if wait_s is None or time.monotonic() + wait_s > deadline:
            raise failure
        say(f"{str(failure).splitlines()[0]} Trying again in {wait_s:.0f} s.")
        time.sleep(wait_s)


def site_address(text: str) -> str:
    """The address of a site without a slash at its end; raises UsageError where it is none."""
    address = httpx.URL(text.strip().rstrip("/")) if text.strip() else httpx.URL("")
    if address.scheme not in {"http", "https"} or not address.host:
        raise UsageError(f"{text!r} is not the address of a site; write it as https://pkb.example.org")
    return str(address).removesuffix("/api/v1").rstrip("/")


def decode(response: httpx.Response, into: type[Decoded]) -> Decoded:
    """The body as the type; raises Unreachable where the answer is not what the API promises."""
    try:
        return msgspec.json.decode(response.content, type=into)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        address = str(response.request.url)
        raise Unreachable(
            f"{address} sent a response that this version of pkb cannot read ({error}). Update pkb."
        ) from error


def refusal_of(response: httpx.Response) -> Refused:
    """The site's error in its own words."""
    try:
        said = msgspec.json.decode(response.content, type=_ProblemBody)
    except (msgspec.DecodeError, msgspec.ValidationError):
        said = _ProblemBody(detail=f"{response.request.url} answered {response.reason_phrase or 'with an error'}.")
    return Refused(
        status=response.status_code,
        detail=said.detail or said.title or "The site gave no reason.",
        errors=said.errors,
        retry_after_s=retry_after_s(response.headers.get("Retry-After")),
    )


def retry_after_s(text: str | None) -> float | None:
    """Seconds that a Retry-After header asks for, given as a number or as a date; None where it says neither."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def backoff_s(tries: int) -> float:
    """How long to wait after so many failed tries: doubling from half a second to 30 s, spread by a quarter."""
    return float(min(30.0, 0.5 * 2 ** (tries - 1)) * random.uniform(0.75, 1.25))  # noqa: S311 - no secret


def _wait_after(failure: Refused, *, tries: int, retried: frozenset[int]) -> float | None:
    """Seconds to wait before the next try; None where an error is final."""
    # After 503 a write may be stored: the connection to the database may break in the middle of its COMMIT.
    if failure.status != 429 and failure.status not in retried:
        return None
    has_pause = failure.status in {429, 503} and failure.retry_after_s is not None
    return failure.retry_after_s if has_pause else backoff_s(tries)


def _unanswered(site: str, error: Exception) -> str:
    if isinstance(error, httpx.TimeoutException):
        return f"{site} did not respond in time."
    return f"{site} cannot be reached ({error or type(error).__name__})."
