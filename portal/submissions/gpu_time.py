"""How many GPUs an evaluation takes, and about how long."""

from collections.abc import Sequence
from statistics import fmean

from django.conf import settings
from django.db.models import CharField, F

from evaluator.hardware import profiles
from portal.core.kept_statements import Given, KeptStatement
from portal.submissions.models import Evaluation, State


def gpus_of(profile: str) -> int:
    """The GPUs that one evaluation on `profile` occupies; a practice profile has none."""
    chosen = profiles.get(profile)
    return chosen.world_size if chosen.gpu else 0


def expected_gpu_s(profile: str, *, evaluations: int) -> float:
    """About what judging so many on `profile` takes: by the mean of what was judged there, else by the reservation."""
    return usual_seconds([profile])[profile] * gpus_of(profile) * evaluations


def usual_seconds(names: Sequence[str]) -> dict[str, float]:
    """The mean seconds of the evaluations judged last on each profile; the reservation where there are none."""
    judged = _JUDGED_LAST.rows_of_each([{"profile": name} for name in names])
    return {
        name: fmean(took.total_seconds() for (took,) in rows) if rows else settings.RESERVED_SECONDS
        for name, rows in zip(names, judged, strict=True)
    }


_JUDGED_LAST = KeptStatement(
    lambda: (
        Evaluation.objects.filter(profile=Given("profile", CharField()), state=State.FINISHED)
        .exclude(started_at=None)
        # In the order of the queue's index: there may be millions.
        .order_by("priority", "-queued_at")
        .annotate(took=F("finished_at") - F("started_at"))
        .values_list("took")[:50]
    )
)
