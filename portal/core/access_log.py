"""The web server's log line of each request: the status that the site gave, even if the client had disconnected.

gunicorn notes 500 for every request whose visitor leaves before the answer, so that a reader of the log takes people
who close a page for failures of the site.
"""

from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from gunicorn.glogging import Logger

VISITOR_LEFT = 499
"""nginx's number for a request whose visitor did not wait for the answer; no standard has one."""
answered: ContextVar[int | None] = ContextVar("answered", default=None)
"""The status that the site gave to the request of this task, None while it has given none."""


class AccessLog(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's log, with the site's own status instead of the 500 that stands for "nothing was sent"."""

    def access(self, resp: Any, req: Any, environ: dict[str, Any], request_time: timedelta) -> None:
        """Write one line, except for a heartbeat that was taken: 200 nodes would write 40 a second."""
        status = answered.get()
        if status == 200 and environ["PATH_INFO"].endswith("/heartbeat/"):
            return
        if status is not None and not resp.sent:
            resp.status = status
        super().access(resp, req, environ, request_time)
