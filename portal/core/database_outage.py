"""What the site answers while its database does not: which errors mean that, and when callers may ask again."""

import logging
import threading
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, OperationalError

RETRY_AFTER_S = 10
"""A restart of PostgreSQL takes seconds; asking more often would only meet it again while it starts."""


def is_database_away(error: BaseException | None) -> bool:
    """Whether `error` says that the database cannot work now, as against a query that is wrong.

    PostgreSQL: no connection, a lost one, a server that starts or stops, a full disk, no free connection, a deadlock.
    SQLite: a file that is locked, full or cannot be read. The same request may succeed later.
    """
    if isinstance(error, OperationalError | InterfaceError):
        # SQLite reports a missing table, which waiting does not make, as an operational error as well.
        return getattr(error.__cause__, "sqlite_errorname", "") != "SQLITE_ERROR"
    # psycopg2 raises its plain DatabaseError where a connection broke in the middle of an answer.
    return type(error) is DatabaseError and error.__cause__ is not None


class ThrottledLogger:
    """Log lines of a process that meets the missing database again and again: one line a minute, with how many.

    Args:
        logger: where the lines go.
        clock: seconds of a clock that never goes back.
    """

    EVERY_S = 60.0

    def __init__(self, logger: logging.Logger, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._clock = logger, clock
        self._lock = threading.Lock()
        self._next_at = clock()
        self._unsaid = 0

    def note(self, what: str, error: BaseException | str) -> None:
        """Count that `what` met `error`, and say so unless that was said less than a minute ago."""
        with self._lock:
            self._unsaid += 1
            if self._clock() < self._next_at:
                return
            self._next_at = self._clock() + self.EVERY_S
            times, self._unsaid = self._unsaid, 0
        more = f" ({times} times since the last such line)" if times > 1 else ""
        self._logger.warning("the database does not respond, %s: %s%s", what, str(error).partition("\n")[0], more)
