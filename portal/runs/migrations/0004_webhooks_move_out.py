"""Webhooks belong to an app of their own from here on: only what Django knows changes, the tables stay as they are."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0003_sent_again"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name="WebhookDelivery"),
                migrations.DeleteModel(name="Webhook"),
            ],
        ),
    ]
