"""Evaluations know the primitives that their reports found, so that boards need not read reports."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

ORDER = ("copy_engine", "sm_load_store", "tma", "nvls", "nvshmem", "nccl", "nccl_device")


def read_from_reports(apps: Apps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Fill in what earlier reports found."""
    Report = apps.get_model("submissions", "Report")
    Evaluation = apps.get_model("submissions", "Evaluation")
    finished = Report.objects.filter(evaluation__state="finished").order_by("attempt")
    for evaluation, sightings in finished.values_list("evaluation", "content__primitives").iterator():
        found = {sighting["primitive"] for sighting in sightings or ()}
        named = [name for name in ORDER if name in found]
        Evaluation.objects.filter(pk=evaluation).update(primitives=named)


class Migration(migrations.Migration):
    dependencies = [("submissions", "0002_attempts_and_pauses")]

    operations = [
        migrations.AddField(
            model_name="evaluation",
            name="primitives",
            field=models.JSONField(blank=True, default=list, help_text="The hardware paths that the report found."),
        ),
        migrations.RunPython(read_from_reports, migrations.RunPython.noop),
    ]
