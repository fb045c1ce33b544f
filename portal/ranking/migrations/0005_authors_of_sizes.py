from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import OuterRef, Subquery


def fill(apps: Any, schema_editor: Any) -> None:
    standing = apps.get_model("ranking", "Standing").objects.filter(pk=OuterRef("standing_id"))
    apps.get_model("ranking", "SizeStanding").objects.update(author_id=Subquery(standing.values("author_id")[:1]))


class Migration(migrations.Migration):
    # One transaction per step: PostgreSQL does not alter a table whose new foreign keys are still to be checked.
    atomic = False

    dependencies = [
        ("ranking", "0004_board_statistics"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="sizestanding",
            name="author",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="standings_by_size",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="sizestanding",
            name="author",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="standings_by_size",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
