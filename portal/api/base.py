"""What all endpoints share: who may call them, and what their methods take and answer."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.exceptions import MethodNotAllowed, NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.permissions import SAFE_METHODS, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.utils.mediatypes import media_type_matches
from rest_framework.viewsets import GenericViewSet

from portal.accounts.models import TokenScope
from portal.api.auth import HasScope
from portal.api.inputs import NoQuery, Query, read
from portal.api.parsers import require_length
from portal.api.problem_details import ProblemDetailsOutput
from portal.core.errors import Refusal

SIGNED_IN = (HasScope, IsAuthenticated)
"""Permissions where anonymous callers may not even read."""


class Resource(GenericViewSet[Any]):
    """A set of views of the API, whose methods are made by `operation`.

    Attributes:
        tag: the part of the API that it belongs to.
        read_scope: the scope that a token needs to read.
        write_scope: the scope that a token needs to write.
        also_enough: scopes that do instead of `read_scope`; a read then shows only what they are for.
        query: the validated parameters of a read.
    """

    http_method_names = ["get", "head", "post"]
    tag: ClassVar[str] = ""
    read_scope: ClassVar[TokenScope | None] = None
    write_scope: ClassVar[TokenScope | None] = None
    also_enough: ClassVar[frozenset[str]] = frozenset()
    query: Mapping[str, Any]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        require_length(request)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        """Name the site's version, so that a client of another one can say so."""
        response["X-PKB-Version"] = settings.VERSION
        return super().finalize_response(request, response, *args, **kwargs)

    def check_permissions(self, request: Request) -> None:
        """Refuse a method that the address does not take before its caller is asked who they are."""
        if request.method not in self.allowed_methods:
            raise MethodNotAllowed(str(request.method))
        super().check_permissions(request)

    def scope_for(self, method: str | None) -> TokenScope | None:
        return self.read_scope if method in SAFE_METHODS else self.write_scope

    def body(self) -> dict[str, Any]:
        """The validated body; raises ValidationError."""
        serializer = getattr(self, self.action).body
        if isinstance(serializer, Mapping):
            sent = self.request.content_type or ""
            matching = [one for kind, one in serializer.items() if media_type_matches(kind, sent)]
            serializer = (matching or [*serializer.values()])[0]
        return read(serializer, self.request.data)

    def shown(self, found: Any, serializer: type[Serializer[Any]] | None, *, many: bool, status: int) -> Response:
        """The response that shows what a method found: a page of it where the view has pages."""
        if serializer is None:
            return Response(status=status)
        page = self.paginate_queryset(found) if many else None
        data = serializer(found if page is None else page, many=many, context=self.get_serializer_context()).data
        return Response(data, status=status) if page is None else self.get_paginated_response(data)


class NewestFirst(CursorPagination):
    """Newest submissions first, 25 at a time unless `page_size` says otherwise (at most 100)."""

    ordering: tuple[str, ...] = ("-created_at", "-id")
    page_size = 25
    page_size_query_param = "page_size"
    max_page_size = 100

    def decode_cursor(self, request: Any) -> Any:
        """As the library does, but refuses a cursor of which its decoder dropped everything."""
        cursor = super().decode_cursor(request)
        if cursor is not None and cursor.position is None and not cursor.offset:
            raise NotFound
        return cursor

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A page of what `schema` lists."""
        address = {"type": ["string", "null"], "format": "uri"}
        properties = {"next": address, "previous": address, "results": schema}
        return {"type": "object", "properties": properties, "required": [*properties]}

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any] | None:
        """One page; raises Refusal (404) where the cursor is not one of ours."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValidationError, ValueError, OverflowError) as error:
            message = "This cursor cannot be read."
            remedy = "Copy next or previous from a page unchanged, or leave out the cursor to start at the first page."
            raise Refusal("cursor", request.query_params.get("cursor", ""), message, remedy, status=404) from error


class SmallestFirst(NewestFirst):
    """In the order of their numbers: what was added first comes first."""

    ordering = ("id",)


def operation(
    operation_id: str,
    summary: str,
    answers: Any = None,
    *,
    many: bool = False,
    status: int = 200,
    query: type[Query] = NoQuery,
    body: Any = None,
    headers: Sequence[Any] = (),
    refuses: Sequence[int] = (),
    examples: Sequence[Any] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a method of a `Resource` an operation of the API and of its OpenAPI document.

    What the method returns is shown by the serializer `answers`, unless it is a response already; those are described
    by a mapping of statuses. `body` is a serializer, or one by media type. `refuses` are the statuses of refusals
    beyond those that follow from address, scope, query and body (`schema.describe_operations`).
    """
    shown = answers(many=True) if many else answers
    responses = answers if isinstance(answers, Mapping) else {status: shown}

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @extend_schema(
            operation_id=operation_id,
            summary=summary,
            parameters=[*([] if query is NoQuery else [query]), *headers],
            request=body,
            responses={**responses, **dict.fromkeys(refuses, ProblemDetailsOutput)},
            examples=[*examples],
        )
        @wraps(method)
        def handler(view: Any, request: Request, **names: Any) -> Any:
            if request.method in SAFE_METHODS:
                view.query = read(query, request.query_params)
            found = method(view, request, **names)
            if isinstance(found, HttpResponseBase):
                return found
            return view.shown(found, answers, many=many, status=status)

        handler.body = body  # type: ignore[attr-defined]  # `Resource.body` reads it
        return handler

    return decorate


def file_of(*media_types: str) -> dict[Any, OpenApiResponse]:
    """A file of one of these media types, as `operation` describes it; the method returns the response itself."""
    binary = {"type": "string", "format": "binary"}
    return {(200, kind): OpenApiResponse(binary, description="The file.") for kind in media_types}
