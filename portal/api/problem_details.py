"""Every error of the API as application/problem+json (RFC 9457), from one exception handler.

A body has `type`, `title`, `status`, `detail`, `request_id` (by which an operator finds the request in the logs) and
`errors`. The latter has one entry per input at fault, with its field, the value that came, what is wrong with it and
what to do instead.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import singledispatch
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.core.signals import got_request_exception
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from evaluator import logs
from portal.api.faults import ScopeMissing, TokenRefused
from portal.core.database_outage import RETRY_AFTER_S, is_database_away
from portal.core.errors import Refusal

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One sort of error: its status, the fragment of its `type` address, a title and when it occurs."""

    status: int
    slug: str
    title: str
    meaning: str

    @property
    def type(self) -> str:
        """The address that names this kind; the API's page explains it there."""
        return f"{settings.SITE_URL}/api/v1/#{self.slug}"


KINDS = {
    kind.status: kind
    for kind in (
        Kind(
            status=400,
            slug="malformed",
            title="Malformed request",
            meaning="The body cannot be read: not JSON, not UTF-8 or a broken multipart form.",
        ),
        Kind(
            status=401,
            slug="not-signed-in",
            title="Not signed in",
            meaning="The call needs a token, or the one sent is unknown, expired or revoked.",
        ),
        Kind(
            status=403,
            slug="not-allowed",
            title="Not allowed",
            meaning=(
                "The token lacks a scope, a session came without its CSRF token, or the object belongs to someone else."
            ),
        ),
        Kind(
            status=404,
            slug="not-found",
            title="Not found",
            meaning="There is no such object, or it is private to someone else.",
        ),
        Kind(
            status=405,
            slug="method",
            title="Method not allowed",
            meaning="This address accepts other methods: see `Allow`.",
        ),
        Kind(
            status=409,
            slug="conflict",
            title="Conflict",
            meaning="The request conflicts with the present state. Example: the same source is still being judged.",
        ),
        Kind(
            status=410,
            slug="revoked",
            title="Revoked",
            meaning="The node was revoked: its key is right and counts no more.",
        ),
        Kind(
            status=411,
            slug="length-required",
            title="Length required",
            meaning="The body came in chunks, without a Content-Length.",
        ),
        Kind(status=413, slug="too-large", title="Too large", meaning="The body or the source exceeds its limit."),
        Kind(
            status=415,
            slug="media-type",
            title="Unsupported media type",
            meaning="The call does not accept this media type.",
        ),
        Kind(
            status=422,
            slug="refused",
            title="Refused input",
            meaning=(
                "The body is readable, but a field is missing, unknown or wrong. `errors` names the field and "
                "the remedy."
            ),
        ),
        Kind(
            status=429,
            slug="too-many",
            title="Too many requests",
            meaning="A rate limit or a quota is used up. `Retry-After` gives seconds if waiting is enough.",
        ),
        Kind(
            status=500,
            slug="our-fault",
            title="Our fault",
            meaning="The site failed. The failure was logged, and nothing was stored in part.",
        ),
        Kind(
            status=503,
            slug="unavailable",
            title="Unavailable",
            meaning=(
                "The site cannot do this now. Its database does not respond, or a file is not made yet. "
                "`Retry-After` gives seconds. Repeat a write with the same `Idempotency-Key`."
            ),
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class FieldError:
    """One input at fault; `field` is empty where it is the request as a whole."""

    field: str
    value: str
    message: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class ProblemDetails:
    """An error before it is written out."""

    status: int
    detail: str
    errors: tuple[FieldError, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, object]:
        """The members of the JSON body."""
        kind = KINDS.get(self.status, KINDS[400 if self.status < 500 else 500])
        return {
            "type": kind.type,
            "title": kind.title,
            "status": self.status,
            "detail": _writable(self.detail),
            "request_id": logs.current("request_id"),
            "errors": [{name: _writable(text) for name, text in asdict(error).items()} for error in self.errors],
        }


def handle(error: Exception, context: Mapping[str, Any]) -> Response:
    """The response that says what went wrong; REST framework calls it for every exception in a view."""
    set_rollback()
    request = context.get("request")
    if is_database_away(error):
        _log.warning("the database does not respond: %s", str(error).partition("\n")[0])
    elif not isinstance(error, (Refusal, exceptions.APIException, Http404, PermissionDenied, SuspiciousOperation)):
        _log.exception("unhandled error in the API", exc_info=error)
        got_request_exception.send(sender=None, request=request)
    problem = describe(error, request)
    headers = {**_headers_of(error), **problem.headers}
    return Response(problem.body, status=problem.status, headers=headers, content_type=MEDIA_TYPE)


def _headers_of(error: Exception) -> dict[str, str]:
    """What REST framework's own exceptions want said in headers."""
    headers = {}
    if getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = str(error.auth_header)  # type: ignore[attr-defined]  # set by APIView
    if getattr(error, "wait", None):
        headers["Retry-After"] = str(int(error.wait))  # type: ignore[attr-defined]  # Throttled carries it
    return headers


DATABASE_AWAY = (
    "The site's database does not respond at the moment. Repeat the call after the seconds in Retry-After, "
    "a write with the same Idempotency-Key."
)


@singledispatch
def describe(error: Exception, _request: Any) -> ProblemDetails:
    """The error as problem+json. An unexpected one is our fault, and its response reveals no internals."""
    if is_database_away(error):
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        return ProblemDetails(status=503, detail=DATABASE_AWAY, headers=headers)
    return ProblemDetails(status=500, detail="The site failed. The failure was logged. Try again later.")


@describe.register
def _(error: Refusal, _request: Any) -> ProblemDetails:
    entry = FieldError(field=error.field, value=error.value, message=error.message, remedy=error.remedy)
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    detail = f"{_sentence(error.message)} {error.remedy}"
    return ProblemDetails(status=error.status, detail=detail, errors=(entry,), headers=headers)


@describe.register
def _(error: TokenRefused, request: Any) -> ProblemDetails:
    described = describe(error.refusal, request)
    reason = error.refusal.message.replace('"', "'").encode("ascii", "replace").decode()
    challenge = f'Bearer realm="pkb", error="invalid_token", error_description="{reason}"'
    return ProblemDetails(
        status=401, detail=described.detail, errors=described.errors, headers={"WWW-Authenticate": challenge}
    )


@describe.register
def _(error: ScopeMissing, _request: Any) -> ProblemDetails:
    entry = FieldError(
        field="Authorization",
        value="",
        message=_sentence(str(error.detail)),
        remedy=f"Create a token with the scope {error.scope!r} on your account page.",
    )
    challenge = f'Bearer realm="pkb", error="insufficient_scope", scope="{error.scope}"'
    return ProblemDetails(
        status=403,
        detail=f"{entry.message} {entry.remedy}",
        errors=(entry,),
        headers={"WWW-Authenticate": challenge},
    )


@describe.register
def _(error: exceptions.ValidationError, request: Any) -> ProblemDetails:
    errors = tuple(_field_errors(error.detail, request, prefix=""))
    names = ", ".join(dict.fromkeys(entry.field or "the body" for entry in errors))
    return ProblemDetails(status=422, detail=f"Refused: {names}. See `errors` for the remedy.", errors=errors)


@describe.register
def _(_error: Http404, _request: Any) -> ProblemDetails:
    return ProblemDetails(status=404, detail="There is nothing at this address. /api/v1/ lists every address.")


@describe.register
def _(error: exceptions.Throttled, _request: Any) -> ProblemDetails:
    wait = getattr(error, "wait", None)
    when = f"in {int(wait)} seconds" if wait else "later"
    return ProblemDetails(status=429, detail=f"Too many requests without a token. Try again {when}, or use a token.")


@describe.register
def _(_error: exceptions.NotAuthenticated, _request: Any) -> ProblemDetails:
    return ProblemDetails(
        status=401, detail="This call needs a token. Send `Authorization: Bearer pkb_...`; /accounts/ creates one."
    )


@describe.register
def _(error: exceptions.UnsupportedMediaType, request: Any) -> ProblemDetails:
    taken = " or ".join(parser.media_type for parser in getattr(request, "parsers", ())) or "application/json"
    detail = f"{_sentence(str(error.detail))} Send {taken}."
    return ProblemDetails(status=415, detail=detail)


@describe.register
def _(error: exceptions.APIException, _request: Any) -> ProblemDetails:
    return ProblemDetails(status=error.status_code, detail=_sentence(str(error.detail)))


@describe.register
def _(_error: PermissionDenied, _request: Any) -> ProblemDetails:
    return ProblemDetails(status=403, detail="You may not do this.")


@describe.register
def _(_error: SuspiciousOperation, _request: Any) -> ProblemDetails:
    return ProblemDetails(status=400, detail="The form cannot be read: too many fields or files, or too large.")


_REMEDIES = {
    "required": "Add this field.",
    "null": "Give it a value, or leave it out.",
    "blank": "Give it a value, or leave it out.",
    "max_length": "Shorten it.",
    "no_name": "Attach the file with its name.",
    "unknown_field": "Remove it, or check its spelling at /api/v1/.",
    "unknown_parameter": "Remove it, or check its spelling at /api/v1/.",
    "invalid_choice": "Use one of the values listed at /api/v1/.",
}


def _field_errors(detail: Any, request: Any, *, prefix: str) -> Iterator[FieldError]:
    """Flatten the nested details of a ValidationError; names of nested fields are joined with dots."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            is_whole = name == "non_field_errors"
            yield from _field_errors(inner, request, prefix=prefix if is_whole else f"{prefix}.{name}".lstrip("."))
    elif isinstance(detail, list):
        for inner in detail:
            yield from _field_errors(inner, request, prefix=prefix)
    else:
        yield FieldError(
            field=prefix,
            value=_received(request, prefix),
            message=_sentence(str(detail)),
            remedy=_REMEDIES.get(getattr(detail, "code", ""), "Correct it as /api/v1/ describes."),
        )


def _received(request: Any, name: str) -> str:
    """What came for a field of the body or the query, shortened; empty where nothing can be shown."""
    if not name or request is None:
        return ""
    for source in (request.query_params, request.data):
        if isinstance(source, Mapping) and name in source:
            try:
                text = str(source[name])
            except RecursionError:
                return ""
            return text if len(text) <= 80 else f"{text[:77]}..."
    return ""


def _writable(text: str) -> str:
    """The text as UTF-8 can hold it: JSON may bring one half of a pair of surrogates, and errors quote it."""
    return text.encode("utf-8", "replace").decode()


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
