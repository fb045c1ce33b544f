from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0005_errors_of_ours"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="gpuuse",
            options={"verbose_name": "GPU use", "verbose_name_plural": "GPU use"},
        ),
    ]
