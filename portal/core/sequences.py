"""PostgreSQL's sequences after a restore that left them behind: the next row would take a key that is taken."""

from django.apps import apps
from django.core.management.color import no_style
from django.db import connection
from django.db.models import AutoField


def mend_sequences() -> list[str]:
    """Set every sequence that lags behind its table to the table's last key; the names of these tables.

    The others are left alone: beside them somebody may be inserting, with a key that nobody else sees yet.
    """
    if connection.vendor != "postgresql":
        return []
    mended = []
    with connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            described = model._meta  # noqa: SLF001 - Django documents it
            if not isinstance(described.pk, AutoField) or described.proxy:
                continue
            table, key = (connection.ops.quote_name(str(name)) for name in (described.db_table, described.pk.column))
            said = "pg_sequence_last_value(pg_get_serial_sequence(%s, %s)::regclass)"
            cursor.execute(f"SELECT max({key}), {said} FROM {table}", [table, described.pk.column])  # noqa: S608 - names of ours
            last, given = cursor.fetchone()
            if last is not None and last > (given or 0):
                for statement in connection.ops.sequence_reset_sql(no_style(), [model]):
                    cursor.execute(statement)
                mended.append(described.db_table)
    return mended
