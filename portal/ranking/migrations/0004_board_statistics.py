from typing import Any

from django.db import migrations


def add_statistics(apps: Any, schema_editor: Any) -> None:
    """A problem determines its revision: PostgreSQL, not told so, expects far too few rows and sorts whole boards."""
    if schema_editor.connection.vendor != "postgresql":
        return
    for table in ("ranking_standing", "ranking_sizestanding"):
        schema_editor.execute(
            f"CREATE STATISTICS IF NOT EXISTS {table}_board (dependencies) "
            f"ON problem, problem_revision, profile FROM {table}"
        )


def drop_statistics(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor != "postgresql":
        return
    for table in ("ranking_standing", "ranking_sizestanding"):
        schema_editor.execute(f"DROP STATISTICS IF EXISTS {table}_board")


class Migration(migrations.Migration):
    dependencies = [
        ("ranking", "0003_newest_standings"),
    ]

    operations = [migrations.RunPython(add_statistics, drop_statistics)]
