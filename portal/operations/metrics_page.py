"""Where Prometheus asks: a port of its own, which no proxy leads to."""

import asyncio
from typing import Any

from django.conf import settings
from django.db import connections
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from portal.core import metrics
from portal.operations.site_state import StateOfTheSite


def is_for_metrics(scope: dict[str, Any]) -> bool:
    """Whether a request came in by the metrics port. A header cannot say so: the server knows its own socket."""
    _host, port = scope.get("server") or ("", None)
    return bool(settings.METRICS_LISTEN) and port == metrics.port()


async def application(scope: dict[str, Any], _receive: Any, send: Any) -> None:
    """`GET /metrics`, counts of all web processes and the state of the site; 404 to all else."""
    is_ours = scope["path"] == "/metrics" and scope["method"] == "GET"
    body = await asyncio.to_thread(exposition) if is_ours else b"Metrics are at /metrics.\n"
    kind = CONTENT_TYPE_LATEST if is_ours else "text/plain; charset=utf-8"
    headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200 if is_ours else 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_state = StateOfTheSite()


def exposition() -> bytes:
    """All metrics of a web process, in Prometheus's text format."""
    try:
        return generate_latest(metrics.registry()) + generate_latest(_state)
    finally:
        # The thread belongs to a pool and lives on.
        connections.close_all()
