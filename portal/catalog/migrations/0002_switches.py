from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0001_initial"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="problemswitch",
            options={"verbose_name_plural": "problem switches"},
        ),
    ]
