"""Which errors of the database are worth asking again, and which are failures of ours."""

import logging
import socket
import sqlite3
from contextlib import closing

import psycopg2
import pytest
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connection

from portal import settings as settings_module
from portal.core.database_outage import ThrottledLogger, is_database_away


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        caused(OperationalError("refused"), psycopg2.OperationalError("connection refused")),
        caused(InterfaceError("closed"), psycopg2.InterfaceError("connection already closed")),
        caused(DatabaseError("lost"), psycopg2.DatabaseError("no message from the libpq")),
    ],
)
def test_a_lost_connection_is_a_database_that_is_away(error):
    assert is_database_away(error)


@pytest.mark.parametrize(
    "error",
    [
        DatabaseError("Save with update_fields did not affect any rows."),
        caused(IntegrityError("twice"), psycopg2.IntegrityError("duplicate key")),
        ValueError("5"),
        None,
    ],
)
def test_a_failure_of_ours_is_not(error):
    assert not is_database_away(error)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="what SQLite calls operational")
@pytest.mark.django_db
def test_a_table_that_sqlite_does_not_have_is_a_failure_of_ours():
    with pytest.raises(OperationalError) as missing, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM no_such_table")
    assert not is_database_away(missing.value)


def test_a_locked_file_of_sqlite_is_a_database_that_is_away(tmp_path):
    with (
        closing(sqlite3.connect(tmp_path / "file")) as first,
        closing(sqlite3.connect(tmp_path / "file", timeout=0)) as second,
    ):
        first.execute("CREATE TABLE rows (a)")
        first.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError) as locked:
            second.execute("SELECT * FROM rows")
    assert is_database_away(caused(OperationalError("locked"), locked.value))


@pytest.fixture
def full_host():
    """A port that answers nobody: its queue of connections is full, so packets of new ones are dropped."""
    with socket.socket() as listening, socket.socket() as first:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        first.connect(listening.getsockname())
        yield listening.getsockname()[1]


def test_a_database_host_that_drops_packets_is_given_up(full_host, monkeypatch):
    monkeypatch.setenv("PKB_DATABASE_URL", f"postgres://pkb@127.0.0.1:{full_host}/pkb?connect_timeout=2")
    options = settings_module.database_settings()["OPTIONS"]
    with pytest.raises(psycopg2.OperationalError, match="timeout expired") as given_up:
        psycopg2.connect(host="127.0.0.1", port=full_host, dbname="pkb", user="pkb", **options)
    assert is_database_away(caused(OperationalError("timeout"), given_up.value))


def test_every_connection_to_postgresql_has_an_end_of_waiting(monkeypatch):
    monkeypatch.setenv("PKB_DATABASE_URL", "postgres://pkb@127.0.0.1/pkb")
    options = settings_module.database_settings()["OPTIONS"]
    assert options["connect_timeout"] <= 10
    assert options["tcp_user_timeout"] <= 30_000


def test_a_minute_without_a_database_is_one_line_that_counts(caplog):
    now = [0.0]
    lines = ThrottledLogger(logging.getLogger("a worker"), clock=lambda: now[0])
    for second in range(61):
        now[0] = float(second)
        lines.note("reports wait", OperationalError("refused\nis it running?"))
    first, second = caplog.messages
    assert first == "the database does not respond, reports wait: refused"
    assert second.endswith("(60 times since the last such line)")
