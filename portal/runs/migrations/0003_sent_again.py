"""A delivery that was given up can be sent again by hand: a row of its own that points at the first."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0002_allowances_and_telling"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="webhookdelivery",
            name="one_delivery_per_event",
        ),
        migrations.AddField(
            model_name="webhookdelivery",
            name="again_of",
            field=models.OneToOneField(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="sent_again",
                to="runs.webhookdelivery",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.UniqueConstraint(
                condition=models.Q(("again_of", None)), fields=("webhook", "event"), name="one_delivery_per_event"
            ),
        ),
    ]
