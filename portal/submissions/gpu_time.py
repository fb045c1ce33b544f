"""How many GPUs an evaluation takes, and about how long."""

from django.conf import settings
from django.db.models import F

from evaluator.hardware import profiles
from portal.submissions.models import Evaluation, State


def gpus_of(profile: str) -> int:
    """The GPUs that one evaluation on `profile` occupies; a practice profile has none."""
    chosen = profiles.get(profile)
    return chosen.world_size if chosen.gpu else 0


def expected_gpu_s(profile: str, *, evaluations: int) -> float:
    """About what judging so many on `profile` takes: by the mean of what was judged there, else by the reservation."""
    took = (
        Evaluation.objects.filter(profile=profile, state=State.FINISHED)
        .exclude(started_at=None)
        # In the order of the queue's index: there may be millions.
        .order_by("priority", "-queued_at")
        .annotate(took=F("finished_at") - F("started_at"))
        .values_list("took", flat=True)[:50]
    )
    seconds = [value.total_seconds() for value in took]
    mean = sum(seconds) / len(seconds) if seconds else settings.RESERVED_SECONDS
    return float(mean * gpus_of(profile) * evaluations)
