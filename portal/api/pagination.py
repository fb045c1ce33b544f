"""Pages by cursor: stable while new rows arrive."""

from typing import Any

from django.core.exceptions import ValidationError
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination

from portal.core.errors import Refusal


class NewestFirst(CursorPagination):
    """Newest submissions first, 25 at a time unless `page_size` says otherwise (at most 100)."""

    ordering: tuple[str, ...] = ("-created_at", "-id")
    page_size = 25
    page_size_query_param = "page_size"
    max_page_size = 100

    def page_of(self, result: type[serializers.Serializer[Any]]) -> Any:
        """The serializer that describes a page of `result`."""
        fields: dict[str, Any] = {
            "next": serializers.URLField(allow_null=True),
            "previous": serializers.URLField(allow_null=True),
            "results": result(many=True),
        }
        return inline_serializer(name=f"{result.__name__}Page", fields=fields)

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any] | None:
        """One page.

        Raises:
            Refusal: the cursor is not one of ours (404).
        """
        try:
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValidationError, ValueError, OverflowError) as error:
            raise Refusal(
                field="cursor",
                value=request.query_params.get("cursor", ""),
                message="This cursor cannot be read.",
                remedy=(
                    "Copy next or previous from a page unchanged, or leave out the cursor to start at the first page."
                ),
                status=404,
            ) from error


class SmallestFirst(NewestFirst):
    """In the order of their numbers: what was added first comes first."""

    ordering = ("id",)
