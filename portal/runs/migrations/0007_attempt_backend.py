"""An attempt says what it is judged as: a model may answer in another backend than its run asks for."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import OuterRef, Subquery

_BACKENDS = ("pytorch", "cuda", "triton", "parallelkittens", "nvshmem", "nccl_device")


def _take_from_runs(apps: Apps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    run = apps.get_model("runs", "Run")
    attempts = apps.get_model("runs", "Attempt").objects
    attempts.update(backend=Subquery(run.objects.filter(pk=OuterRef("run_id")).values("backend")[:1]))


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_gpu_use")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="backend",
            field=models.CharField(
                choices=[(name, name) for name in _BACKENDS],
                default="pytorch",
                help_text="What it is judged as; a model may answer in another one than its run asks for.",
                max_length=20,
            ),
            preserve_default=False,
        ),
        migrations.RunPython(_take_from_runs, migrations.RunPython.noop),
    ]
