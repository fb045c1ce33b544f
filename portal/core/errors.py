"""Answers that every room gives alike: no, with field, value and remedy, also in a form; not found; not changed."""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django import forms
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


_SHORT = 40
"""Characters of a value that is still shown: a profile or a model's name is, the digest of a source is not."""


def differences(request: Mapping[str, object], stored: Mapping[str, object]) -> list[str]:
    """In words, each field of `request` that `stored` has another value of, with both values where they are short."""
    found = []
    for name, value in request.items():
        now, before = _shown(value), _shown(stored[name])
        words = "another" if max(len(now), len(before)) > _SHORT else f"{now} and was {before}"
        found += [f"{name} is {words}"] if value != stored[name] else []
    return found


def check_replay(
    *, field: str, key: str, what: str, pk: object, request: Mapping[str, object], stored: Mapping[str, object]
) -> None:
    """Do nothing where a request says what the first under its idempotency key said.

    Giving back the earlier thing for another request would make its sender believe in what was never made.

    Args:
        field: the input that brought the key.
        key: the key.
        what: what it made, one word such as "run".
        pk: the id of that.
        request: what this request says, by the names of its fields.
        stored: the same of the first request.

    Raises:
        Refusal: something differs (409); its message names every such field.
    """
    found = differences(request, stored)
    if found:
        remedy = f"Use another key for another {what}, or repeat the first request unchanged."
        raise Conflict(field, key, f"This key was used for a different {what}, {pk}: {'; '.join(found)}.", remedy)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value)
    return "not given" if value is None or value == "" else str(value)


Result = TypeVar("Result")


class ActionForm(forms.Form):
    """A form whose values an action takes."""

    _refused_status = 422

    @property
    def status(self) -> int:
        """The HTTP status of the page that shows the form."""
        return self._refused_status if self.errors else 200

    def values(self) -> dict[str, Any]:
        """What the action takes of a valid form, by the names of its parameters."""
        return self.cleaned_data

    def attempt(self, action: Callable[..., Result], *args: object, **context: object) -> Result | None:
        """What `action` returns for the form's values; None where the form is not valid or shows a refusal."""
        if not self.is_valid():
            return None
        try:
            return action(*args, **context, **self.values())
        except Refusal as refusal:
            self.refuse(refusal)
        return None

    def refuse(self, refusal: Refusal) -> None:
        """Show the refusal at the field it is about."""
        self._refused_status = refusal.status
        self.add_error(refusal.field if refusal.field in self.fields else None, refusal.sentences)
