from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("submissions", "0006_errors_of_ours"),
    ]

    operations = [
        migrations.AddField(
            model_name="evaluation",
            name="recorded_on",
            field=models.DateField(
                blank=True,
                editable=False,
                help_text="When it was judged elsewhere; empty for what this site judged.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="evaluation",
            name="recorded_where",
            field=models.CharField(blank=True, editable=False, help_text="On what: 4 H200.", max_length=40),
        ),
    ]
