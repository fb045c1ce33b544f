"""What a request asks for: one of several choices, a row by its id, or only what has changed."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response

from portal.core.errors import NotFound

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
