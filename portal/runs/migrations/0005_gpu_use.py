from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0004_webhooks_move_out"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="gpuuse",
            options={"verbose_name": "GPU use", "verbose_name_plural": "GPU use"},
        ),
    ]
