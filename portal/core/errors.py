"""Answers that every room gives alike: no, with the field, the value and the remedy; not found; and not changed."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response


class Refusal(Exception):
    """A request that cannot be carried out, through no fault of the site.

    Attributes:
        field: the input at fault ("file", "profile", ...); empty where it is the request as a whole.
        value: what was received, shortened for people; never a secret.
        message: what is wrong, one sentence.
        remedy: what to do instead, one sentence.
        status: the HTTP status that says the same (400, 403, 404, 409, 413, 422, 429, ...).
        retry_after_s: seconds after which the same request may succeed; None where waiting does not help.
        verdict: what a judge would have said, where a source is refused that needs none; else empty.
    """

    status = 422

    def __init__(
        self,
        field: str,
        value: object,
        message: str,
        remedy: str,
        *,
        status: int | None = None,
        retry_after_s: int | None = None,
        verdict: str = "",
    ) -> None:
        super().__init__(message)
        # JSON and archives may carry halves of characters, which no answer can be written with.
        field, text = (str(each).encode("utf-8", "replace").decode() for each in (field, value))
        self.field = field[:80]
        self.value = text if len(text) <= 80 else f"{text[:77]}..."
        self.message = message
        self.remedy = remedy
        self.status = status or self.status
        self.retry_after_s = retry_after_s
        self.verdict = verdict

    @property
    def sentences(self) -> str:
        return f"{self.message} {self.remedy}"


class NotSignedIn(Refusal):
    """A request with a token or key that opens nothing."""

    status = 401


class Forbidden(Refusal):
    """A request for others to make."""

    status = 403


class NotFound(Refusal):
    """A request for something that does not exist, or that the reader may not know of."""

    status = 404


class Conflict(Refusal):
    """A request that does not fit the present state of what it is about."""

    status = 409


class TooMany(Refusal):
    """A request beyond a limit, which may succeed after `retry_after_s`."""

    status = 429


def check_choice(field: str, value: str, known: Iterable[str], *, noun: str = "") -> str:
    """`value`, which must be one of `known`; `noun` is what it would be, where that is not the field's name.

    Raises:
        Refusal: it is none of them (422).
    """
    choices = [str(each) for each in known]
    if value not in choices:
        raise Refusal(field, value, f"There is no such {noun or field}.", f"Choose one of {', '.join(choices)}.")
    return value


Row = TypeVar("Row", bound=Model)


def choice(
    query: Mapping[str, str],
    field: str,
    known: Iterable[str],
    *,
    opening: str = "",
    message: str = "There is no {field} {value}.",
) -> str:
    """The value of `field` in the query of an address, or `opening`; raises NotFound where it is none of `known`."""
    value = query.get(field) or opening
    choices = [str(each) for each in known]
    if value and value not in choices:
        remedy = f"Choose one of {', '.join(filter(None, choices))}."
        raise NotFound(field, value, message.format(field=field, value=repr(value[:40])), remedy)
    return value


def if_changed(request: HttpRequest, etag: str, respond: Callable[[], HttpResponse]) -> HttpResponse:
    """What `respond` makes, under its entity tag; 304 where the reader's copy has the same."""
    response: HttpResponse = get_conditional_response(request, etag=etag) or respond()
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    return response


def uuid_of(text: uuid.UUID | str) -> Any:
    """The identifier that `text` is; None where it is none, which no row has."""
    try:
        return uuid.UUID(str(text))
    except ValueError:
        return None


def by_id(rows: QuerySet[Row], field: str, key: Any, message: str, remedy: str, *, column: str = "pk") -> Row:
    """The row with `key` in its `column`; raises NotFound where there is none, or the key is malformed."""
    try:
        found = rows.filter(**{column: key}).first()
    except (ValidationError, ValueError):
        found = None
    if found is None:
        raise NotFound(field, key, message, remedy)
    return found
