from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def add_statistics(apps: Any, schema_editor: Any) -> None:
    """A problem determines its revision: PostgreSQL, not told so, expects far too few rows and sorts whole boards."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(
            "CREATE STATISTICS ranking_standing_board (dependencies) "
            "ON problem, problem_revision, profile FROM ranking_standing"
        )


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("submissions", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Board",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("problem", models.SlugField(max_length=100)),
                ("problem_revision", models.CharField(max_length=16)),
                ("profile", models.CharField(max_length=40)),
                ("score_rule", models.PositiveSmallIntegerField(help_text="The rule that computed the scores.")),
                (
                    "entries",
                    models.PositiveIntegerField(
                        default=0, help_text="Number of standings of authors whose account is open."
                    ),
                ),
                (
                    "record_low",
                    models.FloatField(blank=True, help_text="Lower end of the record's interval.", null=True),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("problem", "problem_revision", "profile", "score_rule"), name="one_row_per_board"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PersonStanding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("profile", models.CharField(max_length=40)),
                ("solved", models.PositiveSmallIntegerField(help_text="Number of problems with an accepted entry.")),
                (
                    "faster",
                    models.PositiveSmallIntegerField(
                        help_text="Number of problems solved significantly faster than the reference."
                    ),
                ),
                ("mean_score", models.FloatField(help_text="Geometric mean of the best speedup per problem solved.")),
                ("reached_at", models.DateTimeField(help_text="When the last of these entries was submitted.")),
                (
                    "catalog_digest",
                    models.CharField(
                        help_text="Digest of the score rule and the problem revisions behind this row.", max_length=16
                    ),
                ),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="person_standings",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["profile", "-faster", "-solved", "reached_at", "id"], name="people_by_profile")
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("author", "profile"), name="one_row_per_person_and_profile")
                ],
            },
        ),
        migrations.CreateModel(
            name="Record",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("problem", models.SlugField(max_length=100)),
                ("problem_revision", models.CharField(max_length=16)),
                ("profile", models.CharField(max_length=40)),
                ("score_rule", models.PositiveSmallIntegerField(help_text="The rule that computed the scores.")),
                ("backend", models.CharField(max_length=20)),
                ("score", models.FloatField()),
                ("score_low", models.FloatField()),
                ("score_high", models.FloatField()),
                ("previous_low", models.FloatField(blank=True, null=True)),
                ("reached_at", models.DateTimeField()),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="records", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "evaluation",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="record", to="submissions.evaluation"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-reached_at", "-id"], name="records_newest_first"),
                    models.Index(
                        fields=["problem", "problem_revision", "profile", "reached_at"], name="records_of_a_board"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Standing",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("problem", models.SlugField(max_length=100)),
                ("problem_revision", models.CharField(max_length=16)),
                ("profile", models.CharField(max_length=40)),
                ("score_rule", models.PositiveSmallIntegerField(help_text="The rule that computed the scores.")),
                ("backend", models.CharField(max_length=20)),
                ("score", models.FloatField()),
                ("score_low", models.FloatField()),
                ("score_high", models.FloatField()),
                ("submitted_at", models.DateTimeField()),
                (
                    "sizes",
                    models.JSONField(default=list, help_text="portal.catalog.size_times.SizeTime, one per size."),
                ),
                (
                    "low_base",
                    models.FloatField(blank=True, help_text="Lower end of the interval at size base.", null=True),
                ),
                (
                    "low_large",
                    models.FloatField(blank=True, help_text="Lower end of the interval at size large.", null=True),
                ),
                ("primitives", models.JSONField(default=list, help_text="The primitives that the judge detected.")),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="standings",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "evaluation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="standings",
                        to="submissions.evaluation",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=[
                            "problem",
                            "problem_revision",
                            "profile",
                            "score_rule",
                            "-score_low",
                            "submitted_at",
                            "id",
                        ],
                        name="board_by_speed",
                    ),
                    models.Index(
                        fields=["problem", "problem_revision", "profile", "score_rule", "submitted_at", "id"],
                        name="board_by_time",
                    ),
                    models.Index(
                        condition=models.Q(("low_base__isnull", False)),
                        fields=[
                            "problem",
                            "problem_revision",
                            "profile",
                            "score_rule",
                            "-low_base",
                            "submitted_at",
                            "id",
                        ],
                        name="board_at_base",
                    ),
                    models.Index(
                        condition=models.Q(("low_large__isnull", False)),
                        fields=[
                            "problem",
                            "problem_revision",
                            "profile",
                            "score_rule",
                            "-low_large",
                            "submitted_at",
                            "id",
                        ],
                        name="board_at_large",
                    ),
                    models.Index(fields=["-submitted_at", "-id"], name="standings_newest_first"),
                    models.Index(fields=["author", "-submitted_at", "-id"], name="entries_of_an_author"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("author", "problem", "problem_revision", "profile", "backend", "score_rule"),
                        name="one_standing_per_author",
                    )
                ],
            },
        ),
        migrations.RunPython(add_statistics, migrations.RunPython.noop),
    ]
