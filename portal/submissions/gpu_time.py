"""How many GPUs an evaluation takes, and about how long."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from statistics import fmean
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import F, QuerySet

from evaluator.hardware import profiles
from portal.submissions.models import Evaluation, State


def gpus_of(profile: str) -> int:
    """The GPUs that one evaluation on `profile` occupies; a practice profile has none."""
    chosen = profiles.get(profile)
    return chosen.world_size if chosen.gpu else 0


def expected_gpu_s(profile: str, *, evaluations: int) -> float:
    """About what judging so many on `profile` takes: by the mean of what was judged there, else by the reservation."""
    return usual_seconds([profile])[profile] * gpus_of(profile) * evaluations


def usual_seconds(names: Sequence[str]) -> dict[str, float]:
    """The mean seconds of the evaluations judged last on each profile; the reservation where there are none.

    One statement for all profiles: the part that Django makes for one, once for each.
    """
    if not names:
        return {}
    part, values = _judged_last(_PROFILE).query.sql_with_params()
    every = " UNION ALL ".join(f"SELECT %s, took FROM ({part}) AS judged_last" for _ in names)  # noqa: S608 - Django's own SQL
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with connection.cursor() as cursor:
        cursor.execute(every, [each for name in names for each in (name, *_with(name, values))])
        for name, took in cursor:
            seconds[name].append(took.total_seconds() if isinstance(took, timedelta) else took / 1e6)
    return {name: float(fmean(found)) if found else settings.RESERVED_SECONDS for name, found in seconds.items()}


_PROFILE = "the profile"


def _with(name: str, values: Iterable[Any]) -> list[Any]:
    return [name if value == _PROFILE else value for value in values]


def _judged_last(profile: str) -> QuerySet[Evaluation, Any]:
    return (
        Evaluation.objects.filter(profile=profile, state=State.FINISHED)
        .exclude(started_at=None)
        # In the order of the queue's index: there may be millions.
        .order_by("priority", "-queued_at")
        .annotate(took=F("finished_at") - F("started_at"))
        .values_list("took", flat=True)[:50]
    )
