"""What evaluations cost is kept with the evaluations from here on: only what Django knows changes, not the table."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0007_attempt_backend"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel(name="GpuUse")]),
    ]
