"""Which errors of the database are worth asking again, and which are failures of ours."""

import sqlite3
from contextlib import closing

import psycopg2
import pytest
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connection

from portal.database_away import is_database_away


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
