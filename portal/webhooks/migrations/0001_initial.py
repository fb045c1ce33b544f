"""The tables were made by `runs` 0001 to 0003 and keep their names: only what Django knows of them begins here.

Content types follow, and with them the permissions of groups and people, and the log of the admin site.
"""

import uuid
from typing import Any

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

MOVED = ("webhook", "webhookdelivery")


def take_content_types(apps: Any, schema_editor: Any) -> None:
    """Let what points at the models' content types find them here."""
    types = apps.get_model("contenttypes", "ContentType")
    types.objects.using(schema_editor.connection.alias).filter(app_label="runs", model__in=MOVED).update(
        app_label="webhooks"
    )


def give_content_types_back(apps: Any, schema_editor: Any) -> None:
    """The reverse."""
    types = apps.get_model("contenttypes", "ContentType")
    types.objects.using(schema_editor.connection.alias).filter(app_label="webhooks", model__in=MOVED).update(
        app_label="runs"
    )


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0003_sponsors_and_invitations"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("runs", "0004_webhooks_move_out"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Webhook",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("url", models.URLField(max_length=300)),
                        ("events", models.JSONField(default=list)),
                        ("secret", models.CharField(max_length=64)),
                        ("failures", models.PositiveIntegerField(default=0, editable=False)),
                        ("free_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("removed_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "organisation",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="webhooks",
                                to="accounts.organisation",
                            ),
                        ),
                    ],
                    options={"db_table": "runs_webhook", "ordering": ("id",)},
                ),
                migrations.CreateModel(
                    name="WebhookDelivery",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("waiting", "Waiting"),
                                    ("delivered", "Delivered"),
                                    ("given_up", "Given up"),
                                ],
                                default="waiting",
                                max_length=10,
                            ),
                        ),
                        ("tries", models.PositiveSmallIntegerField(default=0)),
                        (
                            "next_try_at",
                            models.DateTimeField(blank=True, default=django.utils.timezone.now, null=True),
                        ),
                        ("answer_status", models.PositiveSmallIntegerField(blank=True, null=True)),
                        ("error", models.CharField(blank=True, max_length=300)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("delivered_at", models.DateTimeField(blank=True, null=True)),
                        (
                            "again_of",
                            models.OneToOneField(
                                blank=True,
                                editable=False,
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="sent_again",
                                to="webhooks.webhookdelivery",
                            ),
                        ),
                        (
                            "event",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="deliveries",
                                to="runs.runevent",
                            ),
                        ),
                        (
                            "webhook",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="deliveries",
                                to="webhooks.webhook",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name_plural": "webhook deliveries",
                        "db_table": "runs_webhookdelivery",
                        "ordering": ("-created_at",),
                        "indexes": [models.Index(fields=["webhook", "next_try_at"], name="due_of_a_webhook")],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("again_of", None)),
                                fields=("webhook", "event"),
                                name="one_delivery_per_event",
                            )
                        ],
                    },
                ),
            ],
        ),
        migrations.RunPython(take_content_types, give_content_types_back),
    ]
