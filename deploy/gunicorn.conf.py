"""What every web server of the site has in common; addresses, workers and folders are said where it is started.

gunicorn's own ASGI worker: an event loop holds connections, and a request costs a thread only once it is complete
(docs/decisions/0026-one-event-loop-per-web-process.md).
"""

import os
import resource
import tempfile
from typing import Any

wsgi_app = "portal.asgi:application"
worker_class = "asgi"
asgi_lifespan = "off"  # Django has nothing to do at start and end
accesslog = None  # the site writes a line per request: gunicorn's would say 500 for every visitor who left early
limit_request_line = 8190  # addresses with many filters
control_socket_disable = True
timeout = 30  # seconds without a sign of life of a worker; also how long a body may pause
# An idle connection is kept for longer than Caddyfile and client keep theirs: whoever keeps it longest loses requests.
# It also holds up the end of a worker. Of 2,000 requests none is lost; with 5 s 101 were (measurements/connections.md).
keepalive = 10  # seconds
graceful_timeout = 20  # uploads get to their end; streams of live pages are opened again by their readers

# Every visitor and every open live page is a socket: as many as the system lets us have.
_, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
_wanted = 65_536 if _most == resource.RLIM_INFINITY else min(_most, 65_536)
resource.setrlimit(resource.RLIMIT_NOFILE, (_wanted, _most))

# All workers count into one folder, so that any of them can report the sum. It is theirs alone, and small.
if os.environ.get("PKB_METRICS_LISTEN") and not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="pkb-web-metrics-")
if os.environ.get("PKB_LOG_FORMAT") == "json":
    from evaluator import logs

    logconfig_dict = logs.configuration("json") | {
        "loggers": {"gunicorn.error": {"propagate": True, "handlers": []}},
    }


def child_exit(_server: Any, worker: Any) -> None:
    """What a worker counted stays; gauges of what it had open go."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(worker.pid)
