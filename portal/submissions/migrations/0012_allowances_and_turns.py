"""Allowances and turns; what an evaluation costs is kept here from now on, in the table that `runs` made.

What waits gets its payer and its turn. Content types follow the moved model, and with them permissions and the log.
"""

from collections import Counter
from typing import Any

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

_ENDED = ("finished", "cancelled")


def give_turns(apps: Any, schema_editor: Any) -> None:
    """Say of everything that waits who pays for it, and let the payers take turns from here on."""
    alias = schema_editor.connection.alias
    evaluations = apps.get_model("submissions", "Evaluation").objects.using(alias)
    payers = dict(
        apps.get_model("runs", "Attempt")
        .objects.using(alias)
        .exclude(submission=None)
        .exclude(submission__evaluations__state__in=_ENDED)
        .values_list("submission", "run__model__organisation")
    )
    organisations = apps.get_model("accounts", "Organisation").objects.using(alias).in_bulk()
    turns: Counter[tuple[str, str, int]] = Counter()
    for evaluation in evaluations.exclude(state__in=_ENDED).select_related("submission").order_by("queued_at", "id"):
        evaluation.payer = _payer(evaluation.submission, organisations.get(payers.get(evaluation.submission_id)))
        place = (evaluation.payer, evaluation.profile, evaluation.priority)
        evaluation.turn = turns[place]
        turns[place] += 1
        evaluation.save(update_fields=["payer", "turn"])


def _payer(submission: Any, organisation: Any) -> str:
    if organisation is None:
        return f"account-{submission.author_id}"
    if organisation.gpu_seconds is None and organisation.sponsor_id is not None:
        return f"sponsor-{organisation.sponsor_id}"
    return f"organisation-{organisation.pk}"


def take_content_type(apps: Any, schema_editor: Any) -> None:
    """Let what points at the model's content type find it here."""
    types = apps.get_model("contenttypes", "ContentType").objects.using(schema_editor.connection.alias)
    types.filter(app_label="runs", model="gpuuse").update(app_label="submissions")


def give_content_type_back(apps: Any, schema_editor: Any) -> None:
    """The reverse."""
    types = apps.get_model("contenttypes", "ContentType").objects.using(schema_editor.connection.alias)
    types.filter(app_label="submissions", model="gpuuse").update(app_label="runs")


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0003_sponsors_and_invitations"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("runs", "0008_gpu_use_moves_out"),
        ("submissions", "0011_request_id"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="GpuUse",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("reserved_gpu_s", models.FloatField()),
                        ("used_gpu_s", models.FloatField(blank=True, null=True)),
                        ("at", models.DateTimeField(default=django.utils.timezone.now)),
                    ],
                    options={
                        "verbose_name": "GPU use",
                        "verbose_name_plural": "GPU use",
                        "db_table": "runs_gpuuse",
                    },
                ),
                migrations.AddField(
                    model_name="gpuuse",
                    name="account",
                    field=models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="gpu_uses",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                migrations.AddField(
                    model_name="gpuuse",
                    name="evaluation",
                    field=models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="gpu_use", to="submissions.evaluation"
                    ),
                ),
                migrations.AddField(
                    model_name="gpuuse",
                    name="organisation",
                    field=models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="gpu_uses", to="accounts.organisation"
                    ),
                ),
                migrations.AddIndex(
                    model_name="gpuuse",
                    index=models.Index(fields=["organisation", "at"], name="use_of_an_organisation"),
                ),
                migrations.AddIndex(
                    model_name="gpuuse",
                    index=models.Index(fields=["account", "at"], name="use_of_an_account"),
                ),
            ],
        ),
        migrations.RunPython(take_content_type, give_content_type_back),
        migrations.AlterField(
            model_name="gpuuse",
            name="organisation",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="gpu_uses",
                to="accounts.organisation",
            ),
        ),
        migrations.CreateModel(
            name="AllowanceLimit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "scope",
                    models.CharField(
                        choices=[
                            ("accounts", "Every account"),
                            ("new_accounts", "Every new account"),
                            ("organisations", "Every organisation"),
                            ("account", "One account"),
                            ("organisation", "One organisation"),
                        ],
                        max_length=20,
                    ),
                ),
                ("profile", models.CharField(blank=True, help_text="Empty: all profiles together.", max_length=40)),
                (
                    "gpu_seconds_per_day",
                    models.FloatField(
                        blank=True,
                        help_text="Seconds times GPUs in any 24 hours; 0 allows none, empty limits nothing.",
                        null=True,
                    ),
                ),
                (
                    "queued_at_most",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Evaluations in the queue at a time; 0 allows none, empty limits nothing.",
                        null=True,
                    ),
                ),
                ("reason", models.CharField(blank=True, help_text="Shown to those whom it stops.", max_length=300)),
            ],
        ),
        migrations.CreateModel(
            name="ProfileQueue",
            fields=[
                ("profile", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("turn", models.PositiveBigIntegerField(default=0)),
                ("served_at", models.DateTimeField(blank=True, null=True)),
                ("watched_since", models.DateTimeField(default=django.utils.timezone.now)),
                ("looked_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.AlterModelOptions(
            name="evaluation",
            options={"ordering": ("-queued_at", "-id")},
        ),
        migrations.AddField(
            model_name="evaluation",
            name="payer",
            field=models.CharField(
                blank=True,
                default="",
                editable=False,
                help_text="Whose allowance and whose turn: account-7.",
                max_length=40,
            ),
        ),
        migrations.AddField(
            model_name="evaluation",
            name="turn",
            field=models.PositiveBigIntegerField(
                default=0, editable=False, help_text="Lower goes first within a priority: payers take turns."
            ),
        ),
        migrations.AlterField(
            model_name="evaluation",
            name="state",
            field=models.CharField(
                choices=[
                    ("queued", "Queued"),
                    ("building", "Being compiled"),
                    ("built", "Compiled, waits for a slot"),
                    ("leased", "Sent to a node"),
                    ("running", "Being judged"),
                    ("finished", "Finished"),
                    ("cancelled", "Cancelled"),
                    ("unserved", "Not judged: no node"),
                ],
                default="queued",
                max_length=10,
            ),
        ),
        migrations.AddIndex(
            model_name="evaluation",
            index=models.Index(
                condition=models.Q(("state__in", ("queued", "building", "built", "leased", "running"))),
                fields=["profile", "-priority", "turn", "queued_at"],
                name="turns_of_a_profile",
            ),
        ),
        migrations.AddIndex(
            model_name="evaluation",
            index=models.Index(
                condition=models.Q(("state__in", ("queued", "building", "built", "leased", "running"))),
                fields=["payer", "profile"],
                name="waiting_of_a_payer",
            ),
        ),
        migrations.AddIndex(
            model_name="evaluation",
            index=models.Index(fields=["-queued_at", "-id"], name="evaluations_newest_first"),
        ),
        migrations.AddField(
            model_name="allowancelimit",
            name="account",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="allowance_limits",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="allowancelimit",
            name="organisation",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="allowance_limits",
                to="accounts.organisation",
            ),
        ),
        migrations.AddConstraint(
            model_name="allowancelimit",
            constraint=models.UniqueConstraint(
                condition=models.Q(("account", None), ("organisation", None)),
                fields=("scope", "profile"),
                name="one_limit_of_many",
            ),
        ),
        migrations.AddConstraint(
            model_name="allowancelimit",
            constraint=models.UniqueConstraint(fields=("account", "profile"), name="one_limit_of_an_account"),
        ),
        migrations.AddConstraint(
            model_name="allowancelimit",
            constraint=models.UniqueConstraint(fields=("organisation", "profile"), name="one_limit_of_an_organisation"),
        ),
        migrations.AddConstraint(
            model_name="allowancelimit",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("account__isnull", False), ("organisation__isnull", True), ("scope", "account")),
                    models.Q(("account__isnull", True), ("organisation__isnull", False), ("scope", "organisation")),
                    models.Q(
                        ("account__isnull", True),
                        ("organisation__isnull", True),
                        ("scope__in", ("accounts", "new_accounts", "organisations")),
                    ),
                    _connector="OR",
                ),
                name="a_limit_names_whom_its_scope_names",
            ),
        ),
        migrations.RunPython(give_turns, migrations.RunPython.noop),
    ]
