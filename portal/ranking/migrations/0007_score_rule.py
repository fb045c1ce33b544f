from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ranking", "0006_size_times_of_the_catalogue"),
        ("submissions", "0005_score_rule"),
    ]

    # What stood before was scored by rule 1.
    operations = [
        migrations.AddField(
            model_name="standing",
            name="score_rule",
            field=models.PositiveSmallIntegerField(default=1, help_text="By which rule the scores came about."),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="sizestanding",
            name="score_rule",
            field=models.PositiveSmallIntegerField(default=1, help_text="By which rule the scores came about."),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="board",
            name="score_rule",
            field=models.PositiveSmallIntegerField(default=1, help_text="By which rule the scores came about."),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="record",
            name="score_rule",
            field=models.PositiveSmallIntegerField(default=1, help_text="By which rule the scores came about."),
            preserve_default=False,
        ),
        migrations.RemoveConstraint(
            model_name="board",
            name="one_row_per_board",
        ),
        migrations.RemoveConstraint(
            model_name="standing",
            name="one_standing_per_author",
        ),
        migrations.RemoveIndex(
            model_name="sizestanding",
            name="board_by_size",
        ),
        migrations.RemoveIndex(
            model_name="standing",
            name="board_by_speed",
        ),
        migrations.RemoveIndex(
            model_name="standing",
            name="board_by_time",
        ),
        migrations.AlterField(
            model_name="personstanding",
            name="catalog_digest",
            field=models.CharField(
                help_text="The rule and the problems' revisions that this was counted under.", max_length=16
            ),
        ),
        migrations.AddIndex(
            model_name="sizestanding",
            index=models.Index(
                fields=[
                    "problem",
                    "problem_revision",
                    "profile",
                    "score_rule",
                    "size",
                    "-score_low",
                    "submitted_at",
                    "id",
                ],
                name="board_by_size",
            ),
        ),
        migrations.AddIndex(
            model_name="standing",
            index=models.Index(
                fields=["problem", "problem_revision", "profile", "score_rule", "-score_low", "submitted_at", "id"],
                name="board_by_speed",
            ),
        ),
        migrations.AddIndex(
            model_name="standing",
            index=models.Index(
                fields=["problem", "problem_revision", "profile", "score_rule", "submitted_at", "id"],
                name="board_by_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="board",
            constraint=models.UniqueConstraint(
                fields=("problem", "problem_revision", "profile", "score_rule"), name="one_row_per_board"
            ),
        ),
        migrations.AddConstraint(
            model_name="standing",
            constraint=models.UniqueConstraint(
                fields=("author", "problem", "problem_revision", "profile", "backend", "score_rule"),
                name="one_standing_per_author",
            ),
        ),
    ]
