"""What the site answers while its database does not: which errors mean that, and when callers may ask again."""

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
