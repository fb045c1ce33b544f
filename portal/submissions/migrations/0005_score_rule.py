from typing import Any

from django.db import migrations, models

_EARLIER_RULE = 1
"""The one rule that there was when these evaluations were scored."""


def fill(apps: Any, schema_editor: Any) -> None:
    scored = apps.get_model("submissions", "Evaluation").objects.filter(score__isnull=False)
    scored.update(score_rule=_EARLIER_RULE)


class Migration(migrations.Migration):
    # One transaction per step: PostgreSQL does not alter a table in the transaction that has filled it.
    atomic = False

    dependencies = [
        ("submissions", "0004_asked_visibility"),
    ]

    operations = [
        migrations.AddField(
            model_name="evaluation",
            name="score_rule",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="By which rule the score came about (evaluator.contract.SCORE_RULE).",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="evaluation",
            name="score",
            field=models.FloatField(blank=True, help_text="Speedup over the reference.", null=True),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
