"""Gives every request an identifier, a log line and its place in the latency histogram."""

import logging
import time
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from evaluator import logs
from portal.core import metrics

HEADER = "X-Request-ID"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_PROBES = frozenset(("/healthz", "/readyz"))
logger = logging.getLogger("portal.requests")


class RequestIdMiddleware:
    """The outermost middleware. Identifiers are always our own: a client could choose one that collides."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer under a new identifier, which the response names in its header."""
        identifier = uuid.uuid4().hex
        began = time.perf_counter()
        with logs.about(request_id=identifier):
            response = self._get_response(request)
            response[HEADER] = identifier
            _note(request, response.status_code, time.perf_counter() - began)
        return response


def _note(request: HttpRequest, status: int, seconds: float) -> None:
    method = request.method if request.method in _METHODS else "OTHER"
    # The name of the route, not the address: what visitors make up must not become a series each.
    route = (found.view_name or "unnamed") if (found := request.resolver_match) is not None else "none"
    metrics.http_request_seconds.labels(method, route, str(status)).observe(seconds)
    is_usual = request.path in _PROBES or (status == 200 and request.path.endswith("/heartbeat/"))
    if not is_usual:
        # Without the query, which may hold what people search for.
        logger.info("%s %s %d in %d ms", method, request.path, status, round(seconds * 1000))
