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
from portal.core.errors import Forbidden, NotFound, Refusal

_TITLES = {
    400: "Bad request",
    403: "Not allowed",
    404: "Not found",
    409: "Conflict",
    413: "Too large",
    429: "Too many requests",
}


def refusal_page(request: HttpRequest, refusal: Refusal, *, title: str = "") -> HttpResponse:
    """A refused request as a page; its title follows from the status, unless one is given."""
    context = {
        "status_code": refusal.status,
        "title": title or _TITLES.get(refusal.status, HTTPStatus(refusal.status).phrase),
        "message": refusal.message,
        "remedy": refusal.remedy,
        "retry_after_s": refusal.retry_after_s,
        "request_id": logs.current("request_id"),
    }
    try:
        response = render(request, "errors/error.html", context, status=refusal.status)
    except DatabaseError as error:  # the page names who is signed in
        if not is_database_away(error):
            raise
        return database_away_page(request)
    if refusal.retry_after_s is not None:
        response["Retry-After"] = str(refusal.retry_after_s)
    return response


def signed_out(request: HttpRequest) -> HttpResponse:
    """401 for a part of a page: a link that leads by signing in back to the page, where the browser keeps the draft."""
    # Without the query: a page that was asked for by it (`?from=`) shows that instead of the draft.
    context = {"next": urlsplit(HtmxDetails(request).current_url_abs_path or "").path}
    return render(request, "errors/_signed_out.html", context, status=401)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400, or 413 where the request was simply too large."""
    if isinstance(exception, DisallowedHost):
        # Rendered without the request: links of a page would name its host, which is refused again.
        context = {
            "status_code": 400,
            "title": "Bad request",
            "message": "This site does not answer to the name in the request.",
            "remedy": f"Open {settings.SITE_URL}. Whoever operates the site lists its names in PKB_ALLOWED_HOSTS.",
            "request_id": logs.current("request_id"),
        }
        return _page_without_database("errors/error.html", context, status=400)
    if isinstance(exception, RequestDataTooBig | TooManyFilesSent):
        remedy = "A submission has at most 512 KB in all. Send it as one .py file or a .zip."
        refusal = Refusal("", "", "The request is larger than this site accepts.", remedy, status=413)
    else:
        remedy = "Go back, reload the page and try again."
        refusal = Refusal("", "", "The request could not be understood.", remedy, status=400)
    return refusal_page(request, refusal)


def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001 - Django's signature
    refusal = Forbidden("", "", "Your account may not do this.", "Sign in with the account that owns it.")
    return refusal_page(request, refusal)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 - Django's signature
    """403 for a form that was sent without a fresh token."""
    message = "The form was sent without its protection token, or the token is too old."
    remedy = "Go back, reload the page and send the form again. Your browser must allow cookies for this site."
    return refusal_page(request, Forbidden("", "", message, remedy), title="The form has expired")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - Django's signature
    remedy = "Check the address, or start from the list of problems."
    return refusal_page(request, NotFound("", "", "There is nothing at this address.", remedy))


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
