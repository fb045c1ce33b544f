"""What a submission's request said of its visibility, which its author may have changed since."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("submissions", "0003_evaluation_primitives")]

    operations = [
        migrations.AddField(
            model_name="submission",
            name="asked_visibility",
            field=models.CharField(blank=True, default="", editable=False, max_length=10),
        ),
    ]
