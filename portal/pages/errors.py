"""The error pages: what happened in a sentence, what to do next, and never a traceback."""

import sys
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost, RequestDataTooBig, TooManyFilesSent
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django_htmx.middleware import HtmxDetails

from evaluator import logs
from portal.core.database_outage import RETRY_AFTER_S, is_database_away
from portal.core.errors import Refusal


def _page(
    request: HttpRequest, *, status: int, title: str, message: str, remedy: str, retry_after_s: int | None = None
) -> HttpResponse:
    context = {
        "status_code": status,
        "title": title,
        "message": message,
        "remedy": remedy,
        "retry_after_s": retry_after_s,
        "request_id": logs.current("request_id"),
    }
    try:
        response = render(request, "errors/error.html", context, status=status)
    except DatabaseError as error:  # the page names who is signed in
        if not is_database_away(error):
            raise
        return database_away_page(request)
    if retry_after_s is not None:
        response["Retry-After"] = str(retry_after_s)
    return response


def refusal_page(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    """A refused request as a page."""
    titles = {404: "Not found", 403: "Not allowed", 409: "Conflict", 413: "Too large", 429: "Too many requests"}
    title = titles.get(refusal.status, HTTPStatus(refusal.status).phrase)
    return _page(
        request,
        status=refusal.status,
        title=title,
        message=refusal.message,
        remedy=refusal.remedy,
        retry_after_s=refusal.retry_after_s,
    )


def signed_out(request: HttpRequest) -> HttpResponse:
    """401 for a part of a page: a link that leads by signing in back to the page, where the browser keeps the draft."""
    # Without the query: a page that was asked for by it (`?from=`) shows that instead of the draft.
    context = {"next": urlsplit(HtmxDetails(request).current_url_abs_path or "").path}
    return render(request, "errors/_signed_out.html", context, status=401)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400, or 413 where the request was simply too large."""
    if isinstance(exception, DisallowedHost):
        return _wrong_host()
    if isinstance(exception, RequestDataTooBig | TooManyFilesSent):
        return _page(
            request,
            status=413,
            title="Too large",
            message="The request is larger than this site accepts.",
            remedy="A submission has at most 512 KB in all. Send it as one .py file or a .zip.",
        )
    return _page(
        request,
        status=400,
        title="Bad request",
        message="The request could not be understood.",
        remedy="Go back, reload the page and try again.",
    )


def _wrong_host() -> HttpResponse:
    # Rendered without the request: links of a page would name its host, which is refused again.
    context = {
        "status_code": 400,
        "title": "Bad request",
        "message": "This site does not answer to the name in the request.",
        "remedy": f"Open {settings.SITE_URL}. Whoever operates the site lists its names in PKB_ALLOWED_HOSTS.",
        "request_id": logs.current("request_id"),
    }
    return _page_without_database("errors/error.html", context, status=400)


def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """403."""
    return _page(
        request,
        status=403,
        title="Not allowed",
        message="Your account may not do this.",
        remedy="Sign in with the account that owns it.",
    )


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 - Django's signature
    """403 for a form that was sent without a fresh token."""
    return _page(
        request,
        status=403,
        title="The form has expired",
        message="The form was sent without its protection token, or the token is too old.",
        remedy="Go back, reload the page and send the form again. Your browser must allow cookies for this site.",
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """404."""
    return _page(
        request,
        status=404,
        title="Not found",
        message="There is nothing at this address.",
        remedy="Check the address, or start from the list of problems.",
    )


def server_error(request: HttpRequest) -> HttpResponse:
    """500, or 503 while the database is away. Django calls this while it handles the exception."""
    if is_database_away(sys.exc_info()[1]):
        return database_away_page(request)
    context = {"title": "Something failed on our side", "request_id": logs.current("request_id")}
    return _page_without_database("errors/500.html", context, status=500)


def database_away_page(request: HttpRequest) -> HttpResponse:
    """503 with Retry-After."""
    context = {
        "title": "Back in a moment",
        "request_id": logs.current("request_id"),
        "retry_after_s": RETRY_AFTER_S,
        "address": request.get_full_path() if request.method == "GET" else "",
    }
    response = _page_without_database("errors/503.html", context, status=503)
    response["Retry-After"] = str(RETRY_AFTER_S)
    response["Cache-Control"] = "no-store"
    return response


def _page_without_database(template: str, context: Mapping[str, object], *, status: int) -> HttpResponse:
    # Rendered without the request: context processors would ask the database who is signed in.
    return HttpResponse(render_to_string(template, dict(context)), status=status)
