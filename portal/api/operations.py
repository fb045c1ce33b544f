"""What one method of an endpoint takes and answers: said once, for the call itself and for the OpenAPI document."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.utils.mediatypes import media_type_matches

from portal.api.inputs import NoQuery, Query, Strict, read
from portal.api.pagination import NewestFirst

_SUCCESSES = {200: "Success.", 201: "Created.", 202: "Accepted; it is done shortly.", 204: "Done."}
_BODY_REFUSALS = frozenset({400, 411, 413, 415, 422})


class Answer:
    """What a successful call answers; this one says nothing."""

    def described(self, status: int) -> dict[Any, Any]:
        """The responses of the OpenAPI document that are no refusals."""
        return {status: OpenApiResponse(None, description=_SUCCESSES[status])}

    def response(self, found: Any, view: Any, *, status: int) -> Response:  # noqa: ARG002 - for those that show it
        """The response to what the method of `view` has returned."""
        return Response(status=status)


@dataclass(frozen=True)
class One(Answer):
    """One thing as `serializer` shows it."""

    serializer: type[Serializer[Any]]

    def described(self, status: int) -> dict[Any, Any]:
        """Its one response."""
        return {status: OpenApiResponse(self.serializer, description=_SUCCESSES[status])}

    def response(self, found: Any, view: Any, *, status: int) -> Response:
        """The thing, shown."""
        return Response(self.serializer(found, context=view.serializer_context()).data, status=status)


@dataclass(frozen=True)
class Conditional(One):
    """One thing, or 304 where the caller's copy is still right."""

    def described(self, status: int) -> dict[Any, Any]:
        """The thing and 304."""
        return {**super().described(status), 304: OpenApiResponse(description="Nothing changed.")}


@dataclass(frozen=True)
class Listed(One):
    """All things that there are."""

    def described(self, status: int) -> dict[Any, Any]:
        """A list of all."""
        return {status: OpenApiResponse(self.serializer(many=True), description=_SUCCESSES[status])}

    def response(self, found: Any, view: Any, *, status: int) -> Response:
        """Every thing, shown."""
        return Response(self.serializer(found, many=True, context=view.serializer_context()).data, status=status)


@dataclass(frozen=True)
class Paged(One):
    """A page of things by cursor."""

    pages: type[NewestFirst] = NewestFirst

    def described(self, status: int) -> dict[Any, Any]:
        """A page with the addresses beside it."""
        return {status: OpenApiResponse(self.pages().page_of(self.serializer), description=_SUCCESSES[status])}

    def response(self, found: Any, view: Any, *, status: int) -> Response:  # noqa: ARG002 - a page is always 200
        """The page that the request asks for, cut out of what was found."""
        pages = self.pages()
        page: Any = pages.paginate_queryset(found, view.request, view)
        return pages.get_paginated_response(self.serializer(page, many=True, context=view.serializer_context()).data)


class Files(Answer):
    """A file of one of these media types; the method returns the response itself."""

    def __init__(self, *media_types: str) -> None:
        self._media_types = media_types

    def described(self, status: int) -> dict[Any, Any]:
        """A response per media type."""
        binary = {"type": "string", "format": "binary"}
        return {(status, kind): OpenApiResponse(binary, description="The file.") for kind in self._media_types}


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one address.

    Attributes:
        id: its name in the OpenAPI document and in generated clients.
        summary: what it does, in a few words.
        answer: what it answers, with `status`.
        query: the parameters that it takes.
        body: a serializer, or one by media type; None where it takes no body.
        headers: parameters that are neither in the path nor in the query.
        examples: of its body.
        refuses: the statuses of its refusals beyond those that follow from path, scope, query and body.
    """

    id: str
    summary: str
    answer: Answer
    status: int = 200
    query: type[Query] = NoQuery
    body: type[Strict] | Mapping[str, Any] | None = None
    headers: tuple[OpenApiParameter, ...] = ()
    examples: tuple[OpenApiExample, ...] = ()
    refuses: tuple[int, ...] = ()

    @property
    def input_refusals(self) -> frozenset[int]:
        """What may be wrong with a body."""
        return _BODY_REFUSALS if self.body is not None else frozenset()

    def read_query(self, request: Request) -> dict[str, Any]:
        """The validated parameters of a query; raises ValidationError."""
        return read(self.query, request.query_params)

    def read_body(self, request: Request) -> dict[str, Any]:
        """The validated values of a body; raises ValidationError."""
        body: Any = self.body
        if isinstance(body, Mapping):
            kinds = [kind for kind in body if media_type_matches(kind, request.content_type or "")]
            body = body[kinds[0] if kinds else next(iter(body))]
        return read(body, request.data)


def operation(
    operation_id: str, summary: str, answer: Answer | None = None, **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., HttpResponseBase]]:
    """Make a method of an `Endpoint` an operation; arguments as of `Operation`.

    What the method returns is shown by `answer`, unless it is a response already. A read without a query of its own
    refuses every parameter before the method runs.
    """
    said = Operation(id=operation_id, summary=summary, answer=answer or Answer(), **more)

    def decorate(method: Callable[..., Any]) -> Callable[..., HttpResponseBase]:
        @wraps(method)
        def handler(view: Any, request: Request, **names: Any) -> HttpResponseBase:
            if request.method in SAFE_METHODS and said.query is NoQuery:
                read(NoQuery, request.query_params)
            found = method(view, request, **names)
            if isinstance(found, HttpResponseBase):
                return found
            return said.answer.response(found, view, status=said.status)

        handler.operation = said  # type: ignore[attr-defined]  # `operation_of` reads it
        return handler

    return decorate


def operation_of(view: Any) -> Operation | None:
    """The operation that a view carries out for its request; None where the address does not take the method."""
    return getattr(getattr(view, view.action or "", None), "operation", None)
