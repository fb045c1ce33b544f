"""The site behind a clock: gunicorn serves `application`, and every request leaves a line in the file PKB_BENCH_LOG.

A line holds the address, the status, milliseconds from the first byte of the application's work to its last, and how
many statements it sent to the database.
"""

import json
import os
import time
from contextvars import ContextVar
from typing import Any

from django.db.backends.signals import connection_created

from portal.asgi import application as site

_statements: ContextVar[list[int]] = ContextVar("statements")
_log = os.open(os.environ["PKB_BENCH_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _count(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:  # noqa: FBT001 - Django's own
    _statements.get([0])[0] += 1
    return execute(sql, parameters, many, context)


def _watch(connection: Any, **_: Any) -> None:
    connection.execute_wrappers.append(_count)


connection_created.connect(_watch, dispatch_uid="bench")


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The site's own application; one line when it has answered."""
    counter, status = [0], [0]
    _statements.set(counter)

    async def noting(message: dict[str, Any]) -> None:
        status[0] = message.get("status", status[0])
        await send(message)

    began = time.perf_counter()
    await site(scope, receive, noting)
    line = {
        "path": scope.get("path", ""),
        "query": scope.get("query_string", b"").decode(),
        "status": status[0],
        "ms": (time.perf_counter() - began) * 1e3,
        "statements": counter[0],
    }
    os.write(_log, json.dumps(line).encode() + b"\n")
