from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("submissions", "0007_recorded_elsewhere"),
    ]

    operations = [
        migrations.AlterField(
            model_name="profileswitch",
            name="note",
            field=models.TextField(blank=True, help_text="Why: shown to those whose submissions wait."),
        ),
    ]
