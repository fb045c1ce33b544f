"""Turns a `Refusal` that a view lets through into a page with its status."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from portal.pages.errors import refusal_page
from portal.refusals import Refusal


class RefusalMiddleware:
    """Shows the designed page for a refused request, with the sentence that says what to do instead."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """The page for a refusal; None leaves any other exception to Django."""
        return refusal_page(request, exception) if isinstance(exception, Refusal) else None
