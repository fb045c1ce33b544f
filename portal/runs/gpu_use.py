"""The GPU time that an organisation's runs have used lately. What they may use is in `portal.submissions.quotas`."""

from datetime import datetime

from django.db.models import Q, Sum

from portal.accounts.models import Organisation
from portal.runs.models import Run
from portal.submissions.models import GpuUse
from portal.submissions.quotas import MONTH


def use_by_run(organisation: Organisation, *, now: datetime, most: int = 20) -> list[tuple[Run, float, float]]:
    """The organisation's runs with the GPU-seconds that each has used in 30 days and has reserved, the most first."""
    rows = list(
        GpuUse.objects.filter(organisation=organisation, at__gt=now - MONTH)
        .values_list("evaluation__submission__attempt__run")
        .annotate(used=Sum("used_gpu_s"), held=Sum("reserved_gpu_s", filter=Q(used_gpu_s=None)))
        .order_by("-used")[:most]
    )
    runs = Run.objects.select_related("model").in_bulk([pk for pk, _, _ in rows])
    uses = [(runs[pk], used or 0.0, held or 0.0) for pk, used, held in rows]
    return sorted(uses, key=lambda use: -(use[1] + use[2]))
