from typing import Any

from django.db import migrations, models


def mark_what_is_there(apps: Any, schema_editor: Any) -> None:
    """Reports have named alarms before the column did."""
    evaluations = apps.get_model("submissions", "Evaluation")
    evaluations.objects.filter(reports__content__alarms__0__isnull=False).update(has_alarms=True)


class Migration(migrations.Migration):
    dependencies = [
        ("submissions", "0019_recorded_runs"),
    ]

    operations = [
        migrations.AddField(
            model_name="evaluation",
            name="has_alarms",
            field=models.BooleanField(
                db_default=False,
                default=False,
                editable=False,
                help_text="Whether its report names something to look into.",
            ),
        ),
        migrations.RunPython(mark_what_is_there, migrations.RunPython.noop, elidable=True),
        migrations.AddIndex(
            model_name="evaluation",
            index=models.Index(
                condition=models.Q(("has_alarms", True)), fields=["-queued_at"], name="evaluations_with_alarms"
            ),
        ),
    ]
