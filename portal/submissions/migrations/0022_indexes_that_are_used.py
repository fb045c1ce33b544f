"""Fewer indexes on what every submission writes, changed while the site takes submissions (decision 0065).

On PostgreSQL no reader or writer waits for it: indexes are made and dropped concurrently, and an index is renamed with
its constraint. It waits itself for transactions that run. Every step may run again, as after an interruption. Backwards
it leaves the indexes: the version before works with them. What Django would do for the same change drops foreign keys
and makes them again, which locks three tables.
"""

import django.db.models.deletion
from django.apps.registry import Apps
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

DROPPED = (
    ("evaluation", "lease"),
    ("evaluation", "node"),
    ("evaluation", "profile"),
    ("evaluation", "submission"),
    ("source", "digest"),
    ("submission", "author"),
    ("submission", "problem"),
)
"""Columns of which no index of their own is used: another one begins with them, or is unique."""
RENAMED = (("evaluation", "lease", "one_evaluation_per_lease"), ("source", "digest", "one_source_per_digest"))
"""Columns whose unique index becomes that of a constraint with a name."""
OF_AN_AUTHOR = models.Index(fields=["author", "is_attempt", "-created_at", "-id"], name="newest_of_an_author")
ON_A_PROBLEM = models.Index(
    fields=["problem", "author", "is_attempt", "-created_at", "-id"], name="newest_on_a_problem"
)


def change_indexes(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    for index in (OF_AN_AUTHOR, ON_A_PROBLEM):
        replace(editor, apps.get_model("submissions", "submission"), index)
    for model, column in DROPPED:
        for name in indexes(apps, editor, model, column, is_unique=False):
            drop(editor, name)
    if editor.connection.vendor == "postgresql":
        for model, column, wanted in RENAMED:
            for name in indexes(apps, editor, model, column, is_unique=True):
                if name != wanted:
                    # With it goes the constraint of which it is the index.
                    editor.execute(f"ALTER INDEX {editor.quote_name(name)} RENAME TO {editor.quote_name(wanted)}")


def replace(editor: BaseDatabaseSchemaEditor, model: type[models.Model], index: models.Index) -> None:
    """Make an index under a name of its own, and give it that of the one that it replaces, where there is one."""
    if editor.connection.vendor != "postgresql":
        drop(editor, index.name)
        editor.add_index(model, index)
        return
    draft = models.Index(fields=index.fields, name=f"{index.name}_draft")
    drop(editor, draft.name)
    editor.execute(draft.create_sql(model, editor, concurrently=True), params=None)
    drop(editor, index.name)
    editor.execute(f"ALTER INDEX {editor.quote_name(draft.name)} RENAME TO {editor.quote_name(index.name)}")


def drop(editor: BaseDatabaseSchemaEditor, name: str) -> None:
    concurrently = "CONCURRENTLY " if editor.connection.vendor == "postgresql" else ""
    editor.execute(f"DROP INDEX {concurrently}IF EXISTS {editor.quote_name(name)}")


def indexes(apps: Apps, editor: BaseDatabaseSchemaEditor, model: str, column: str, *, is_unique: bool) -> list[str]:
    """The names of the indexes of one column alone."""
    options = apps.get_model("submissions", model)._meta
    columns = [options.get_field(column).column]
    with editor.connection.cursor() as cursor:
        found = editor.connection.introspection.get_constraints(cursor, options.db_table)
    return [
        name
        for name, about in found.items()
        if about["columns"] == columns
        and about["index" if not is_unique else "unique"]
        and about["unique"] == is_unique
        and not about["primary_key"]
    ]


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("accounts", "0007_closed_accounts_index"),
        ("nodes", "0004_help_says_what_empty_means"),
        ("submissions", "0021_help_says_who_and_what"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(change_indexes, migrations.RunPython.noop)],
            state_operations=[
                migrations.RemoveIndex(model_name="submission", name="newest_of_an_author"),
                migrations.AlterField(
                    model_name="evaluation",
                    name="lease",
                    field=models.CharField(blank=True, max_length=64, null=True),
                ),
                migrations.AlterField(
                    model_name="evaluation",
                    name="node",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="evaluations",
                        to="nodes.node",
                    ),
                ),
                migrations.AlterField(
                    model_name="evaluation",
                    name="profile",
                    field=models.CharField(max_length=40),
                ),
                migrations.AlterField(
                    model_name="evaluation",
                    name="submission",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="evaluations",
                        to="submissions.submission",
                    ),
                ),
                migrations.AlterField(
                    model_name="source",
                    name="digest",
                    field=models.CharField(max_length=64),
                ),
                migrations.AlterField(
                    model_name="submission",
                    name="author",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="submissions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                migrations.AlterField(
                    model_name="submission",
                    name="problem",
                    field=models.SlugField(db_index=False, max_length=100),
                ),
                migrations.AddIndex(model_name="submission", index=OF_AN_AUTHOR),
                migrations.AddIndex(model_name="submission", index=ON_A_PROBLEM),
                migrations.AddConstraint(
                    model_name="evaluation",
                    constraint=models.UniqueConstraint(fields=("lease",), name="one_evaluation_per_lease"),
                ),
                migrations.AddConstraint(
                    model_name="source",
                    constraint=models.UniqueConstraint(fields=("digest",), name="one_source_per_digest"),
                ),
            ],
        )
    ]
