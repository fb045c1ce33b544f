"""Pages by cursor: stable while new rows arrive."""

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination

from portal.core.errors import Refusal


class NewestFirst(CursorPagination):
    """Newest submissions first, 25 at a time unless `page_size` says otherwise (at most 100)."""

    ordering: tuple[str, ...] = ("-created_at", "-id")
    page_size = 25
    page_size_query_param = "page_size"
    max_page_size = 100

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
