"""Every error of the API as application/problem+json (RFC 9457), from one exception handler.

A body has `type`, `title`, `status`, `detail`, `request_id` (by which an operator finds the request in the logs) and
`errors`. The latter has one entry per input at fault, with its field, the value that came, what is wrong with it and
what to do instead.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.core.signals import got_request_exception
from django.http import Http404
from rest_framework import exceptions, serializers
from rest_framework.response import Response
from rest_framework.views import set_rollback

from evaluator import logs
from portal.api.auth import CredentialRefused
from portal.core.database_outage import RETRY_AFTER_S, is_database_away
from portal.core.errors import Refusal

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kind:
    """One sort of error: its status, the fragment of its `type` address, a title and when it occurs."""

    status: int
    slug: str
    title: str
    meaning: str


_KINDS = (
    Kind(
        400,
        "malformed",
        "Malformed request",
        "The body cannot be read: not JSON, not UTF-8 or a broken multipart form.",
    ),
    Kind(
        401,
        "not-signed-in",
        "Not signed in",
        "The call needs a token, or the one sent is unknown, expired or revoked.",
    ),
    Kind(
        403,
        "not-allowed",
        "Not allowed",
        "The token lacks a scope, a session came without its CSRF token, or the object belongs to someone else.",
    ),
    Kind(404, "not-found", "Not found", "There is no such object, or it is private to someone else."),
    Kind(405, "method", "Method not allowed", "This address accepts other methods: see `Allow`."),
    Kind(
        409,
        "conflict",
        "Conflict",
        "The request conflicts with the present state. Example: the same source is still being judged.",
    ),
    Kind(410, "revoked", "Revoked", "The node was revoked: its key is right and counts no more."),
    Kind(411, "length-required", "Length required", "The body came in chunks, without a Content-Length."),
    Kind(413, "too-large", "Too large", "The body or the source exceeds its limit."),
    Kind(415, "media-type", "Unsupported media type", "The call does not accept this media type."),
    Kind(
        422,
        "refused",
        "Refused input",
        "The body is readable, but a field is missing, unknown or wrong. `errors` names the field and the remedy.",
    ),
    Kind(
        429,
        "too-many",
        "Too many requests",
        "A rate limit or a quota is used up. `Retry-After` gives seconds if waiting is enough.",
    ),
    Kind(500, "our-fault", "Our fault", "The site failed. The failure was logged, and nothing was stored in part."),
    Kind(
        503,
        "unavailable",
        "Unavailable",
        "The site cannot do this now. Its database does not respond, or a file is not made yet. "
        "`Retry-After` gives seconds. Repeat a write with the same `Idempotency-Key`.",
    ),
)
KINDS = {kind.status: kind for kind in _KINDS}
"""The sorts of errors by status."""


class FieldErrorOutput(serializers.Serializer[Any]):
    """One input at fault."""

    field = serializers.CharField(allow_blank=True, help_text="The field's name; empty for the request as a whole.")
    value = serializers.CharField(allow_blank=True, help_text="The value, shortened.")
    message = serializers.CharField(help_text="The error.")
    remedy = serializers.CharField(help_text="The remedy.")
    verdict = serializers.CharField(default="", help_text="The verdict on a source that is refused without a judge.")


class ProblemDetailsOutput(serializers.Serializer[Any]):
    """An error as RFC 9457 has it."""

    type = serializers.CharField(help_text="The address that explains this kind of error.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    request_id = serializers.CharField(
        allow_blank=True, help_text="With this number the operator finds the request in the logs."
    )
    errors = FieldErrorOutput(many=True)  # type: ignore[assignment]  # the metaclass takes it out of the class


def details(status: int, detail: str, errors: Iterable[Mapping[str, str]] = ()) -> dict[str, Any]:
    """The members of an error's JSON body."""
    kind = KINDS.get(status, KINDS[400 if status < 500 else 500])
    return {
        "type": f"{settings.SITE_URL}/api/v1/#{kind.slug}",
        "title": kind.title,
        "status": status,
        "detail": _writable(detail),
        "request_id": logs.current("request_id"),
        "errors": [{name: _writable(text) for name, text in error.items()} for error in errors],
    }


def handle(error: Exception, context: Mapping[str, Any]) -> Response:
    """The response that says what went wrong; REST framework calls it for every exception in a view."""
    set_rollback()
    request = context.get("request")
    if is_database_away(error):
        _log.warning("the database does not respond: %s", str(error).partition("\n")[0])
    elif not isinstance(error, (Refusal, exceptions.APIException, *_PLAIN)):
        _log.exception("unhandled error in the API", exc_info=error)
        got_request_exception.send(sender=None, request=request)
    problem = describe(error, request)
    return Response(problem, status=problem["status"], headers=_headers_of(error), content_type=MEDIA_TYPE)


def _headers_of(error: Exception) -> dict[str, str]:
    """The challenge that APIView gives an error, and the seconds to wait that a refusal or a throttle brings."""
    wait = RETRY_AFTER_S if is_database_away(error) else getattr(error, "retry_after_s", getattr(error, "wait", None))
    found = {"WWW-Authenticate": getattr(error, "auth_header", None), "Retry-After": wait}
    return {name: str(value) for name, value in found.items() if value is not None}


_PLAIN = {
    Http404: (404, "There is nothing at this address. /api/v1/ lists every address."),
    PermissionDenied: (403, "You may not do this."),
    SuspiciousOperation: (400, "The form cannot be read: too many fields or files, or too large."),
}


@singledispatch
def describe(error: Exception, _request: Any) -> dict[str, Any]:
    """The error as problem+json. An unexpected one is our fault, and its response reveals no internals."""
    if is_database_away(error):
        detail = (
            "The site's database does not respond at the moment. Repeat the call after the seconds in Retry-After, "
            "a write with the same Idempotency-Key."
        )
        return details(503, detail)
    for kind, (status, sentence) in _PLAIN.items():
        if isinstance(error, kind):
            return details(status, sentence)
    return details(500, "The site failed. The failure was logged. Try again later.")


@describe.register
def _(error: Refusal, _request: Any) -> dict[str, Any]:
    entry = {"field": error.field, "value": error.value, "message": error.message, "remedy": error.remedy}
    entry |= {"verdict": error.verdict} if error.verdict else {}
    return details(error.status, f"{_sentence(error.message)} {error.remedy}", (entry,))


@describe.register
def _(error: CredentialRefused, request: Any) -> dict[str, Any]:
    return describe(error.refusal, request)


@describe.register
def _(error: exceptions.ValidationError, request: Any) -> dict[str, Any]:
    errors = tuple(_field_errors(error.detail, request, prefix=""))
    names = ", ".join(dict.fromkeys(entry["field"] or "the body" for entry in errors))
    first = " ".join(entry["message"] for entry in errors[:1])
    return details(422, f"Refused: {names}. {first} See `errors` for the remedy.", errors)


@describe.register
def _(error: exceptions.APIException, request: Any) -> dict[str, Any]:
    detail = _sentence(str(error.detail))
    if isinstance(error, exceptions.NotAuthenticated):
        detail = "This call needs a token. Send `Authorization: Bearer pkb_...`; /accounts/ creates one."
    elif isinstance(error, exceptions.UnsupportedMediaType):
        accepted = " or ".join(parser.media_type for parser in getattr(request, "parsers", ())) or "application/json"
        detail = f"{detail} Send {accepted}."
    elif isinstance(error, exceptions.Throttled):
        wait = getattr(error, "wait", None)
        when = f"in {int(wait)} seconds" if wait else "later"
        detail = f"Too many requests without a token. Try again {when}, or use a token."
    return details(error.status_code, detail)


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


def _field_errors(detail: Any, request: Any, *, prefix: str) -> Iterator[dict[str, str]]:
    """Flatten the nested details of a ValidationError; names of nested fields are joined with dots."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            is_whole = name == "non_field_errors"
            yield from _field_errors(inner, request, prefix=prefix if is_whole else f"{prefix}.{name}".lstrip("."))
    elif isinstance(detail, list):
        for inner in detail:
            yield from _field_errors(inner, request, prefix=prefix)
    else:
        yield {
            "field": prefix,
            "value": _received(request, prefix),
            "message": _sentence(str(detail)),
            "remedy": _REMEDIES.get(getattr(detail, "code", ""), "Correct it as /api/v1/ describes."),
        }


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
