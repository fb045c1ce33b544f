"""The GPU time that an organisation's runs have used lately. What they may use is in `portal.submissions.quotas`."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, Sum

from portal.accounts.models import Organisation
from portal.runs.models import Run
from portal.submissions.models import GpuUse
from portal.submissions.quotas import MONTH


@dataclass(frozen=True, kw_only=True)
class RunUse:
    """GPU-seconds of one run in the last 30 days."""

    run: Run
    used_gpu_s: float
    reserved_gpu_s: float


def use_by_run(organisation: Organisation, *, now: datetime, most: int = 20) -> list[RunUse]:
    """What the organisation's own runs have used and reserved, the most first."""
    rows = (
        GpuUse.objects.filter(organisation=organisation, at__gt=now - MONTH)
        .values_list("evaluation__submission__attempt__run")
        .annotate(used=Sum("used_gpu_s"), held=Sum("reserved_gpu_s", filter=Q(used_gpu_s=None)))
        .order_by("-used")[:most]
    )
    found = {pk: (used or 0.0, held or 0.0) for pk, used, held in rows}
    runs = Run.objects.select_related("model").in_bulk(found)
    uses = [RunUse(run=runs[pk], used_gpu_s=used, reserved_gpu_s=held) for pk, (used, held) in found.items()]
    return sorted(uses, key=lambda use: -(use.used_gpu_s + use.reserved_gpu_s))
