"""GPU time is charged to the second: reserved while an evaluation waits, charged once when it ends."""

import math
from collections.abc import Iterator
from datetime import datetime

from django.db.models import Exists, OuterRef, Q

from portal.operations.audit.invariants import invariant
from portal.submissions import quotas
from portal.submissions.models import Evaluation, GpuUse, State
from portal.submissions.queue import REJUDGE_PRIORITY


@invariant(
    "gpu-time-is-charged",
    "All work on this site's GPUs counts against an allowance, except what an operator has judged again.",
)
def _uncharged(_now: datetime) -> Iterator[str]:
    """Work on the site's GPUs without a payer: all that waits, every attempt's first. A rejudge costs nothing."""
    first = ~Exists(Evaluation.objects.filter(submission=OuterRef("submission"), queued_at__lt=OuterRef("queued_at")))
    chargeable = Q(state__in=State.unfinished()) | Q(submission__is_attempt=True) & first
    here = Evaluation.objects.filter(recorded_on=None, node_owner=None).exclude(priority=REJUDGE_PRIORITY)
    free = here.filter(chargeable, gpu_use=None)
    chosen = free.order_by().values_list("pk", "profile")
    return (str(pk) for pk, profile in chosen if quotas.reservation_gpu_s(profile))


@invariant("quotas-are-exact", "What waits is reserved. What has ended is charged by the time that it took.")
def _wrongly_charged(_now: datetime) -> Iterator[str]:
    for use in GpuUse.objects.select_related("evaluation").iterator():
        if not use.evaluation.has_ended:
            if use.used_gpu_s is not None:
                yield f"GPU use {use.pk}: charged before its end"
        elif use.used_gpu_s is None:
            yield f"GPU use {use.pk}: still reserved"
        elif use.used_gpu_s and not math.isclose(use.used_gpu_s, quotas.charge(use.evaluation), abs_tol=1e-6):
            yield f"GPU use {use.pk}: {use.used_gpu_s} instead of {quotas.charge(use.evaluation)}"
